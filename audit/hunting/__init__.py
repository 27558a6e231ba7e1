"""From a description of data to a refuted claim: candidate pairs, cheap alarms, the hunt, shrinking."""
