"""One-run audits: many canaries, one training run, and guesses about which of them were in; theorems in `bounds`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # `bounds` alone needs none of the names
