"""How wrong a product is, and what its precision costs."""
