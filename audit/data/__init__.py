"""Datasets: records, neighbouring relations, pairs, candidate pairs for the search, and copies for runs."""
