"""Tests of the bundled server: in memory, and over real sockets."""
