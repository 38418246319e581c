"""logprobs in streams: increments that lie with their text, none lost, none repeated, as in the plain answer."""
