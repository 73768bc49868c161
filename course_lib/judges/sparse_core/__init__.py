"""A judge for kernels on SparseCores, which JAX's simulator does not have.

``evaluate`` runs the traced kernel in NumPy, one subcore after another from barrier to barrier (``interpreter``, with
``arithmetic``, ``accesses`` and ``transfers``). ``memory`` says which elements a ref names, ``copies`` which copies are
under way, ``sharing`` who has touched what. Whatever a chip may do differently raises a Fault, which
``judge_sparse_core`` turns into a verdict.
"""
