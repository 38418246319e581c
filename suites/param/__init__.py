"""Sampling parameters, limits and hints: accepted or refused as documented, and with the effect they promise."""
