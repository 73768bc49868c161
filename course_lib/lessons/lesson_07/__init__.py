"""What the exercises of lesson 7 demand."""

TITLE = "Tiled matmul"
GIVES = "a product in blocks: build it, say where the sum belongs, choose its blocks, and know how exact it is"
NEEDS = (1, 4, 5)
HARDWARE = "what a float32 product in one pass really is; here the judges multiply in float32"
