"""Reference implementations of differentially private mechanisms: one module per family, each with its proven claims.

The privacy mathematics is exact here. Floating-point leaks of the samplers are out of scope unless a module says so.
"""
