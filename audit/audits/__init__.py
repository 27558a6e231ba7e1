"""The three kinds of audit, of fixed size, sequential and in one run, and how an audit is asked for."""
