"""The three judges of a GPU kernel: numbers, races, ptxas."""
