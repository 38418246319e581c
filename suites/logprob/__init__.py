"""logprobs: present when asked for and only then, well formed, sane, and about the text that was sent."""
