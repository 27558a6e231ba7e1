"""The kinds of audit: of fixed size, sequential, of one run, of many runs, and of scores; suites and verification."""
