"""Structured output: response_format, the guarantee of strict, and what must be refused."""
