"""Right and wrong: rules, what they are judged on, verdicts, and what they come to."""
