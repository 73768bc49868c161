# Wrong answers to the exercises of lesson 8. Each stands in the place of the answer cell; `judge` must refuse it, and
# the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="08.1" name="copies" judge="numbers" says="at .1. is 1; it should be 2"
def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


# %% answer="08.1" name="doubles the ref, not what it holds" judge="numbers" says="arithmetic on a Ref.*not a value"
def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref


# %% answer="08.1" name="returns the double" judge="numbers" says="kernel returned a value.*writes into its output refs"
def double_kernel(x_ref, o_ref):
    return 2 * x_ref[...]
