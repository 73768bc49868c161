"""What the exercises of lesson 6 demand."""

TITLE = "Layout and the price of an op"
GIVES = "count registers before you compile, tell cheap operations from expensive ones, and choose the axis of a sum."
NEEDS = (2, 4)
HARDWARE = "The kernels run on it, but no cell is timed."
