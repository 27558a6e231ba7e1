"""What is counted: features of an output, events in terms of features, and the witness that an audit counts."""
