"""The three judges of a kernel for a GPU: numbers, races, ptxas."""
