"""Runs client libraries: environments of their own, small drivers inside them, the tap in between."""
