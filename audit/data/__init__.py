"""Neighbouring datasets: relations, pairs, candidates for the worst pair, and datasets that every run sees anew."""
