"""A picture for each combination of a few choices."""
