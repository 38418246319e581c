"""Outcome tables: what became of what was asked for, side by side."""
