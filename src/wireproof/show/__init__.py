"""What a person reads, in a terminal or in any report."""
