"""Privacy as a regression test: the pytest fixture, frozen tests, and refuted events that are tried first.

Nothing is imported here, for pytest loads the `plugin` wherever the package is installed.
"""
