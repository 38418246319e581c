"""Scenarios that need more than one request: each a small async function over a `Session`, one module an area."""
