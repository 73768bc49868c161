"""What the exercises of lesson 7 demand."""

TITLE = "Tiled matmul"
GIVES = "build a product in blocks, say where its sum belongs, choose the blocks, and know how exact it is."
NEEDS = (1, 4, 5)
HARDWARE = "You see what a float32 product in one pass really is; here the judges multiply in float32."
