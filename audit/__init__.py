"""epsaudit: certified lower bounds on the privacy loss of a mechanism, beside the bounds that were proven."""

import lazy_loader

# __init__.pyi lists the public names. Each is imported when it is first used: importing all of them takes a second or
# two, which `epsaudit --help` and tests that do not use the pytest fixture need not spend.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
