"""Privacy as a regression test: the pytest fixture, and frozen tests.

Nothing is imported here, for pytest loads the `plugin` wherever the package is installed.
"""
