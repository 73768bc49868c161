"""A judge for kernels on SparseCores, which JAX's simulator does not have.

``evaluate`` runs the traced kernel in NumPy, one vector subcore after another from barrier to barrier (``subcore``).
``memory`` says which elements a ref names, ``copies`` which copies are under way, ``sharing`` who has touched what.
Whatever a chip may do differently raises a Fault, which ``judge_sparse_core`` turns into a verdict.
"""
