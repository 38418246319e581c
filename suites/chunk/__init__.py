"""The shape of each chunk of a stream, and how its deltas add up."""
