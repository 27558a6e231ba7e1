"""Results made readable: terminal table, CSV, figures, progress. Results enter, text and files leave."""
