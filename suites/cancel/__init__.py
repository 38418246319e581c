"""What a server does when its client leaves."""
