"""Released differential-privacy libraries under audit: environments, adapters, and a corpus of known bugs.

A library's version enters as a file of pinned requirements; registry entries leave, whose mechanism is the library
itself, running in a virtual environment of its own and spoken to through `epsaudit.command`.
"""
