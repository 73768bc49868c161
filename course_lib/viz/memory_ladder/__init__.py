"""The memories of a chip, fastest first."""
