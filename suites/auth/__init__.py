"""Keys: which ones the server accepts, and how it refuses the others."""
