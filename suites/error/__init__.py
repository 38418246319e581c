"""Errors: their shape, their status, and servers that survive them."""
