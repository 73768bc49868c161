"""Online softmax of one row of scores, block by block: ``softmax_stepper``."""
