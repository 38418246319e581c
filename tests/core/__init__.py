"""Tests of the wire core and of what judges it. No sockets, no clock."""
