"""Keys: who is let in, and how the others are told."""
