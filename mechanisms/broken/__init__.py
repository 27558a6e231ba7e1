"""Mechanisms that break their claims, one module a family, each violation documented: what an audit must catch.

Every class carries the claim as it is, wrongly, made; its output law is exact, so how far it is off is known. Each
violation is common enough to be certified with 10^6 runs at 99.9 % confidence.
"""
