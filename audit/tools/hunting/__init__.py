"""From a description of data to a refuted claim: candidate pairs, the hunt, shrinking."""
