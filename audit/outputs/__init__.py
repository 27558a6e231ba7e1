"""The normal form of one output, in arrays, in columns of numbers, and in JSON."""
