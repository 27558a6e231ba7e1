"""What is promised: privacy definitions and their profiles, conversions between them, composition accounting."""
