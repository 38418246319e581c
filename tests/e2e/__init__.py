"""Tests through the outside: command line, plugin, sockets, files, packages."""
