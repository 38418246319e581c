"""finish_reason: known values, once for each choice, and the same with and without a stream."""
