"""What the exercises of lesson 4 demand."""

TITLE = "Grids and BlockSpecs"
GIVES = "cut arrays into legal blocks, order a grid so that it is right and cheap, and handle ragged edges."
NEEDS = (1, 2)
HARDWARE = "The kernels run on it."
