"""The event stream as bytes: lines, events, characters, headers, and when each byte comes."""
