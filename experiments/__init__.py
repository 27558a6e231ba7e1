"""Studies that run the harness: what each runs, what it draws, what its source says it should show."""
