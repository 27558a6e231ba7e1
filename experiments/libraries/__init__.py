"""Audits of released differential-privacy libraries: environments, a registry, and a corpus of known bugs.

A library version is described by a file of pinned requirements. The mechanism of its registry entry is the library
itself, which runs in a virtual environment of its own and is reached through `epsaudit.command`.
"""
