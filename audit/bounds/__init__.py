"""Pure functions from a claim and a table of counts to a bound, each proven in docs/explanation/theory.md."""
