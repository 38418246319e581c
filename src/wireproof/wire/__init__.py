"""The wire core: bytes in, values out. No sockets, no clock, no logging."""
