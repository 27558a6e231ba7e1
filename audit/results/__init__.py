"""Results: what is certified, as text and JSON, compared, verified, and stored with what made it."""
