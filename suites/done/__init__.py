"""How a stream ends: the [DONE] marker and the end of the body."""
