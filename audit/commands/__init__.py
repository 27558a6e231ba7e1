"""Subcommands of ``epsaudit`` that have a room of their own; each module adds its words to the parser by `add`."""
