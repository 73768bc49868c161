"""What a computation moves through HBM, stage by stage: ``traffic``, ``gradient_flow``."""
