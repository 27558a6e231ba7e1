"""Outputs of mechanisms: the normal form of one output, arrays of outputs, their parts, their text, and JSON."""
