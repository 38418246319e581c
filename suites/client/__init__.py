"""Client libraries at work: what they make of the target's answers, beside what the bytes say."""
