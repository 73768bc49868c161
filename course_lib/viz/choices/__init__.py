"""A picture for each combination of choices: the widget behind ``mask_painter`` and ``unroll_viewer``."""
