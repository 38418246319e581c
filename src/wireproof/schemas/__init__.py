"""JSON Schemas of the files that wireproof writes."""
