"""Choices: the members of a plain answer, and n of them."""
