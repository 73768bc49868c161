"""Loops and conditions in a kernel."""

from course_lib.errors.row import Row

ROWS = (
    Row(
        "when-vector",
        r"Pred must be a scalar, got .*? of shape (?P<shape>\([^)]*\))",
        "A condition of shape {shape} was given to pl.when or lax.cond, which need a single true or false.",
        "choose element by element with jnp.where(condition, a, b), or reduce it first with jnp.any.",
        "08",
    ),
    Row(
        "loop-returns-nothing",
        r"the corresponding component of the carry output is a <class 'NoneType'>",
        "The body of a loop returned None, but the loop carries a value that the body must return.",
        "return the carried value; if there is none, start with None: jax.lax.fori_loop(0, n, body, None).",
        "08",
    ),
    Row(
        "loop-changes-type",
        r"carry input and carry output must have equal types.*? has type (?P<before>\S+) but the corresponding output "
        r"carry component has type (?P<after>\w+\[[^\]]*\])",
        "The carried value of a loop changed its type from one iteration to the next: {before} went in, {after} came "
        "out.",
        "start with the shape and dtype that the body returns, or cast at its end with astype.",
        "08",
    ),
    Row(
        "branches",
        r"cond branches must have equal output types.*? has type (?P<one>\S+) but the corresponding output of \w+ has "
        r"type (?P<other>\w+\[[^\]]*\])",
        "The two branches of a lax.cond return different things: {one} and {other}.",
        "make both return the same shapes and dtypes; or write to a ref under @pl.when.",
        "08",
    ),
    Row(
        "scan-outputs",
        r"Scan with \d+ extensive (?:output|input)\(s\) is not supported",
        "The kernel uses lax.scan or lax.map on slices of a value. A loop in a kernel can only carry values.",
        "loop with jax.lax.fori_loop, read x_ref[i] and write o_ref[i] in its body.",
        "08",
    ),
)
