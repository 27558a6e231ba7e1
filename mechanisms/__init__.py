"""Reference implementations of differentially private mechanisms, one family a module, each with its proven claim.

Privacy mathematics is exact here; floating-point leaks of the samplers are out of scope unless a module says so.
"""
