"""Studies that run epsaudit: each module says what it measures and what the study's source claims about the result."""
