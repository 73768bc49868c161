"""Rooflines, as a widget (``roof_plot``) and as a picture (``three_roofs``)."""
