"""Rooflines, as a picture and as a widget."""
