"""epsaudit: certified lower bounds on the privacy loss of a mechanism, beside the bounds that were proven."""

import lazy_loader

# What each name stands for is said in __init__.pyi and imported when it is first used: a second or two that `epsaudit
# --help`, or tests that never ask for the pytest fixture, need not pay.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
