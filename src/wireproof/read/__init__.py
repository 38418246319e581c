"""What a check reads of one exchange: the answer, what was asked for, and what follows from both."""
