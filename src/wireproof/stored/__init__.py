"""What lies on disk: the run record, and every other form of recording that can be judged."""
