"""The grid player: a kernel step by step."""
