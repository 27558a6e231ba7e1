"""Mechanisms that break their claims: each class carries the claim as it is, wrongly, made, and says what is wrong.

Laws are exact but where a class says so, and each violation that the catalogue lists is certified by 10^6 runs.
"""
