"""What the pages of kernels share: legal sizes, layouts, products of blocks, what the chip offers."""
