"""One judge per file, and how each compares a result with its reference."""
