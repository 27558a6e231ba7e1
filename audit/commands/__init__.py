"""Subcommands of ``epsaudit`` that have a module of their own; each module adds its words to the parser by `add`."""

AS_EXPECTED, SURPRISED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: every verdict as expected, one not, wrong input, Ctrl-C."""
