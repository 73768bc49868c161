"""What all pictures share: strokes, colors, units in words."""
