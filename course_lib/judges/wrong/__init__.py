"""What a wrong result looks like, and where."""
