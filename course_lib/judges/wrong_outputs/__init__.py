"""What a wrong output looks like, and where."""
