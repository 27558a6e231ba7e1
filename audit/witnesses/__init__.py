"""What an audit counts: features of an output, events defined by features, and the witness that consists of events."""
