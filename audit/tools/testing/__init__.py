"""Privacy as a regression test: the pytest fixture ``privacy_audit``, and frozen tests.

This module imports nothing, because pytest loads the `plugin` wherever the package is installed.
"""
