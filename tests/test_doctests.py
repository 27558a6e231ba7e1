"""Every example in a docstring runs and prints what it says; modules are found by their import name."""

import doctest
import importlib
import linecache
import pkgutil

import pytest


def modules():
    for package in ("epsaudit", "epsaudit.mechanisms", "epsaudit.experiments"):
        yield package
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        yield from (one.name for one in found if not one.name.endswith("__main__"))


@pytest.mark.parametrize("name", list(modules()))
def test_examples_print_what_they_say(name):
    linecache.clearcache()  # doctest looks at each file in this cache before each docstring
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=flags, report=True)
    assert failed == 0, "see the output above"
