"""Mechanisms that break their claims: each class states the false claim, and its docstring says what is wrong.

Laws are exact unless a class says otherwise. An audit of 10^6 runs certifies every violation that the catalogue lists.
"""
