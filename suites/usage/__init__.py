"""Token counts: present where they were asked for, and right."""
