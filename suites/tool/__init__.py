"""Tool calls: which function is called, with which arguments, and what else the message holds."""
