"""What the exercises of lesson 8 demand."""

TITLE = "Control flow and masks"
GIVES = "branch, loop, mask ragged edges, skip blocks together with their copies, and carry a sum from block to block."
NEEDS = (1, 2, 4)
HARDWARE = "Memory past the end of an array holds whatever was left there; here the simulator puts NaN."
