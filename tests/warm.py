"""Programs that are there at once: commands run in forks of a process that has imported what they import.

``warm(folder)`` puts programs of the names in `PROGRAMS` into a folder, which is to be first on the path. Each hands
its words, folder, environment, input and outputs to the process, which forks, and so is a process of its own all the
same. Starting afresh, a command imports for seconds.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("epsaudit", "pytest", "python")
IMPORTED = ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf", "scipy.stats")

ASK = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    told = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(told).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(told)
    answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


def serve(address):
    """Answer programs until standard input ends."""
    import json
    import os
    import pkgutil
    import runpy
    import socket
    import threading
    import traceback
    from importlib import import_module

    import pytest

    import epsaudit.tools.cli.main

    ours = (module.name for module in pkgutil.walk_packages(epsaudit.__path__, "epsaudit.") if "__" not in module.name)
    for name in (*IMPORTED, *ours):
        import_module(name)

    def run(words):
        program = Path(words[0]).name
        sys.argv = words if program == "epsaudit" else words[1:]
        if program == "epsaudit":
            return epsaudit.tools.cli.main.main()
        if program == "pytest":
            return pytest.main(words[1:])
        if words[1:2] == ["-m"]:
            sys.argv = words[2:]
            return runpy.run_module(words[2], run_name="__main__", alter_sys=True) and 0
        return runpy.run_path(words[1], run_name="__main__") and 0

    def answer(connection):
        size, (*streams,), *_ = socket.recv_fds(connection, 8, 3)
        told = b""
        while len(told) < int.from_bytes(size, "big"):
            told += connection.recv(1 << 16)
        words, folder, environment = json.loads(told)
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        sys.stdout = os.fdopen(1, "w", closefd=False)  # the server's own may be of files, in which one can seek
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        # a process that became another program would answer no more, and audits would start one a request
        os.execvp = lambda program, words: sys.exit(subprocess.call([program, *words[1:]], close_fds=False))
        sys.path[:0] = filter(None, map(os.path.abspath, environment.get("PYTHONPATH", "").split(os.pathsep)))
        try:
            status = run(words)
        except SystemExit as left:
            status = left.code
        except BaseException:
            traceback.print_exc()
            status = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        connection.sendall(bytes([int(status or 0)]))
        os._exit(0)

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    # not `sys.stdin`: a fork would inherit its lock, and what forks again, as a trace does, wait for it for ever
    threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended since
                pass


@contextlib.contextmanager
def warm(folder):
    """Put the programs into the folder, for as long as the context lasts."""
    address = str(folder / "socket")
    code = f"import runpy; runpy.run_path({__file__!r})['serve']({address!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "ready\n"
        for name in PROGRAMS:
            (folder / name).write_text(ASK.format(python=sys.executable, address=address), encoding="utf-8")
            (folder / name).chmod(0o755)
        yield
        process.stdin.close()
