"""What the pictures share: strokes, colours, numbers in words, and the base of all widgets."""
