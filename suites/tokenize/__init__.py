"""Tokenizer endpoints: ids and counts that agree with each other and with the chat's usage."""
