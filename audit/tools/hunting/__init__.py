"""The search for a refuted claim: candidates from a description of the data, the hunt, and the shrinking."""
