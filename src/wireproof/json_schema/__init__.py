"""JSON Schema, as far as an answer is held to it."""
