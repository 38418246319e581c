"""Stop strings: excluded from the answer, found anywhere, and harmless while they do not match."""
