"""Token counts: present when requested, and correct."""
