"""Sampling parameters, limits and hints: taken or refused as documented, and with the effect they promise."""
