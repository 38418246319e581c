"""Tool calls: who is called, with which arguments, and what stands beside them."""
