"""Signals reach the tests, cores are not shared twice, and nightly tests come in an order of the day.

Whoever starts the tests in the background of a script makes them deaf to Ctrl-C, which some of them send. And
pytest-xdist uses the cores already: an audit that is not told a number of jobs, here or in a process that a test
starts, starts no workers of its own, which would import for seconds; nor do matrices have threads, which wait for one
another at full speed. Results do not depend on it; tests that are about workers say how many.
"""

import hashlib
import os
import signal
import sys
import time
from datetime import date

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # read when numpy is first imported
    os.environ.setdefault(variable, "1")
settings.register_profile("untimed", deadline=None)  # a busy machine is late, and nothing is wrong
settings.load_profile("untimed")
NIGHTLY = 20
"""Seconds of a nightly test whose mark says no others: of 602, measured one after another, 556 took less."""


def pytest_configure(config):
    """Settle the day, and when its nightly tests end, before pytest-xdist starts workers, which inherit both."""
    os.environ.setdefault("NIGHTLY_DAY", date.today().isoformat())
    if "NIGHTLY_SECONDS" in os.environ:
        os.environ.setdefault("NIGHTLY_END", str(time.time() + float(os.environ["NIGHTLY_SECONDS"])))


def pytest_collection_modifyitems(config, items):
    """Order nightly tests by a hash of the day, so that over days the time is enough for each."""
    if config.option.markexpr == "nightly":
        day = os.environ["NIGHTLY_DAY"]
        items.sort(key=lambda item: hashlib.sha256(f"{day} {item.nodeid}".encode()).digest())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Forget what a test imported from a temporary folder: the next may have another ``mine.py``."""
    paths, modules = list(sys.path), set(sys.modules)
    result = yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if "/pytest-of-" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Begin no nightly test that would take longer than is left."""
    if mark := item.get_closest_marker("nightly"):
        seconds = mark.kwargs.get("seconds", NIGHTLY)
        if time.time() + seconds > float(os.environ.get("NIGHTLY_END", "inf")):
            pytest.skip(f"the night has not {seconds} seconds left; another day begins with other tests")
