# Wrong answers to the exercises of lesson 16: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.

# %% answer="16.1" name="copies" judge="numbers" says="at .1. is 1; it should be 2"
# -    o_ref[...] = 2 * x_ref[...]
# +    o_ref[...] = x_ref[...]


# %% answer="16.1" name="doubles the ref, not what it holds" judge="numbers" says="arithmetic on a Ref.*not a value"
# -    o_ref[...] = 2 * x_ref[...]
# +    o_ref[...] = 2 * x_ref


# %% answer="16.1" name="returns the double" judge="numbers" says="kernel returned a value.*writes into its output refs"
# -    o_ref[...] = 2 * x_ref[...]
# +    return 2 * x_ref[...]
