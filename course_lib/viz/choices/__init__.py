"""A picture for each combination of choices, behind ``mask_painter``, ``density_dial`` and others."""
