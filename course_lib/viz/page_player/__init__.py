"""Sequences that share the memory for the KV cache page by page: ``page_player``."""
