"""The memories of a chip, fastest first: ``memory_ladder``."""
