"""Results of audits: their classes, their files and JSON Schemas, and the comparison of results of two versions."""
