"""Scenarios in, transcripts out: the client side of the wire, and the only part of the core that does I/O."""
