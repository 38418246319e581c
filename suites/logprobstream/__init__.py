"""logprobs in streams: increments that come with their text, none lost, none repeated, as in the plain answer."""
