"""What the exercises of lesson 7 demand."""

TITLE = "Tiled matmul"
GIVES = "build a tiled matmul, say where it accumulates, choose its blocks, and know how accurate it is."
NEEDS = (1, 4, 5)
HARDWARE = "You see how accurate a float32 matmul in one pass really is; without a TPU, the judges multiply in float32."
