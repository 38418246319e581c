"""Legal variations: right servers that differ from ours. No MUST may fail on them."""
