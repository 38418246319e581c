"""Several tool calls in one answer: possible, told apart, and switched off."""
