"""Released differential-privacy libraries under audit: environments, adapters, and a corpus of known bugs.

A library version is a file of pinned requirements; its registry entries have the library itself as their mechanism,
running in a virtual environment of its own and reached through `epsaudit.command`.
"""
