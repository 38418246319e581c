"""One run, live or offline, and what it writes."""
