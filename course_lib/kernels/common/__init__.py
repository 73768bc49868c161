"""What the pages of kernels share: legal block sizes, layouts, products of blocks, the capacities of the chip."""
