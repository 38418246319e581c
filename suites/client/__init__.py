"""Client libraries at work: what they make of the target's answers, compared with the bytes."""
