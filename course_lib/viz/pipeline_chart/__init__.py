"""Copies and work over time: ``pipeline_chart``, ``predicted_trace``."""
