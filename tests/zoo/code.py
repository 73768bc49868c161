"""What can be seen without running: no kernel, the wrong dtype, values that are not there yet, missing operations."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from zoo.arrays import counted, normal
from zoo.bug import Bug


def whole(kernel, *args, out_dtype=None):
    """A kernel of whole arrays, with an output like the first one."""
    out = jax.ShapeDtypeStruct(args[0].shape, out_dtype or args[0].dtype)
    return pl.pallas_call(kernel, out_shape=out)(*args)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def kernel_not_used(x, y):
    """Calls the kernel and returns what jnp computes."""
    whole(add_kernel, x, y)
    return x + y


def captured_table(x):
    """x plus a table that the kernel takes from outside."""
    table = jnp.asarray(counted(8, 128) % 7)

    def add_table_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + table

    return whole(add_table_kernel, x)


def if_on_a_value(x):
    def clip_kernel(x_ref, o_ref):
        if jnp.max(x_ref[...]) > 1:
            o_ref[...] = jnp.minimum(x_ref[...], 1)
        else:
            o_ref[...] = x_ref[...]

    return whole(clip_kernel, x)


def wrong_out_dtype(x):
    """Doubles bfloat16 numbers and hands them out as float32."""

    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...].astype(jnp.float32)

    return whole(double_kernel, x, out_dtype=jnp.float32)


def sorted_rows(x):
    def sort_kernel(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...], axis=-1)

    return whole(sort_kernel, x)


def running_sums(x):
    def cumsum_kernel(x_ref, o_ref):
        o_ref[...] = jnp.cumsum(x_ref[...], axis=-1)

    return whole(cumsum_kernel, x)


X, Y = normal(8, 128), normal(8, 128, seed=1)

BUGS = tuple(
    Bug(kind="code", name=name, fn=fn, reference=reference, args=args, caught_by=caught_by, says=says)
    for name, fn, reference, args, caught_by, says in (
        ("kernel not used", kernel_not_used, jnp.add, (X, Y), "numbers", r"(without a kernel|is not used)"),
        (
            "captured table",
            captured_table,
            lambda x: x + counted(8, 128) % 7,
            (X,),
            "numbers",
            r"(?s)array that is not one of its refs.*one more input",
        ),
        (
            "if on a value",
            if_on_a_value,
            lambda x: jnp.minimum(x, 1),
            (X,),
            "numbers",
            r"(?s)`if`.*known only when it runs.*jnp\.where",
        ),
        (
            "wrong dtype of the output",
            wrong_out_dtype,
            lambda x: 2 * x,
            (X.astype(jnp.bfloat16),),
            "numbers",
            r"(?s)output is float32; it should be bfloat16.*out_shape",
        ),
        (
            "sort in a kernel",
            sorted_rows,
            lambda x: jnp.sort(x, axis=-1),
            (X,),
            "compiler",
            r"(?s)does not support `sort`.*sort outside",
        ),
        (
            "cumsum in a kernel",
            running_sums,
            lambda x: jnp.cumsum(x, axis=-1),
            (X,),
            "compiler",
            r"(?s)does not support `cumsum`.*triangular",
        ),
    )
)
