"""The pipeline chart: copies and work over time."""
