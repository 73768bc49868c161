"""What the exercises of lesson 4 demand."""

TITLE = "Grids and BlockSpecs"
