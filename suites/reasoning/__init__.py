"""Reasoning: thoughts in a member of their own, before the answer and apart from it."""
