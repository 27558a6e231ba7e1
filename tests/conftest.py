"""Signals reach the tests, and cores are not shared twice.

Whoever starts the tests in the background of a script makes them deaf to Ctrl-C, which some of them send. And
pytest-xdist uses the cores already: an audit that is not told a number of jobs, here or in a process that a test
starts, starts no workers of its own, which would import for seconds; nor do matrices have threads, which wait for one
another at full speed. Results do not depend on it; tests that are about workers say how many.
"""

import os
import shutil
import signal
import sys

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when numpy is first imported
    os.environ.setdefault(variable, "1")
# a busy machine is late, and nothing is wrong; every day draws other examples
settings.register_profile("daily", deadline=None, max_examples=20)
settings.register_profile("weekly", deadline=None, max_examples=300)
settings.load_profile("daily")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Forget what a test imported from a temporary folder, and restore the recursion limit.

    The next test may have another ``mine.py``, and mypy raises the limit, so that JSON is nested too deeply only later.
    """
    paths, modules, limit = list(sys.path), set(sys.modules), sys.getrecursionlimit()
    result = yield
    sys.path[:] = paths
    sys.setrecursionlimit(limit)
    for name in set(sys.modules) - modules:
        if "/pytest-of-" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
    return result


SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def browser_path():
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


@pytest.fixture(scope="module")
def browser():
    path = browser_path()
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have a Chromium: .ci/run installs Debian's.")
        pytest.skip("no Chromium is installed: pages are checked as text only")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield launched
        launched.close()
