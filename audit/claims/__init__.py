"""Privacy claims: definitions of privacy and their profiles, conversions between them, and claims of libraries."""
