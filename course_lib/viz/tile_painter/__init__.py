"""An array in its vector registers: ``tile_painter``."""
