"""Errors: their shape, their status, and servers that live on after them."""
