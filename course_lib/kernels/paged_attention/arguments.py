"""The checks of what ``paged_attention`` and its wrappers are given, before anything else happens."""

import jax.numpy as jnp

from course_lib.arrays import Array
from course_lib.kernels.common import arguments
from course_lib.kernels.paged_attention.pools import Apart, ByToken, Joined, Pool

Named = dict[str, Array]  # by what the op calls them
_TWO = "Are they two arrays? Then paged_attention_wrappers.paged_attention takes them."
_STORED = {  # what the arrays of a pool must be, and what to try if they are not
    Joined: ("(N, KH, P, 2*D), behind each key its value", _TWO),
    Apart: (
        "twice (KH, N, P, D), heads in front",
        "Do the pages come first? Then hand over k_pages.swapaxes(0, 1), which copies all of them.",
    ),
    ByToken: ("(N, P, 2*KH, D), of each head a row of keys and one of values", _TWO),
}


def operands(op: str, pool: Pool, q, pages: Named, lengths: Named, table: Named, scales=None) -> tuple[Array, ...]:
    """Return q, the arrays of the pool, lengths, table, and scales if there are any. Raise TypeError or ValueError."""
    (q,) = arguments.arrays(op, arguments.FLOATS, q=q)
    pools = arguments.arrays(op, arguments.FACTORS, **pages)
    pages = dict(zip(pages, pools, strict=True))
    batch = [(name, arguments.arrays(op, ("int32",), **{name: x})[0]) for name, x in (lengths | table).items()]
    _check_pages(op, pool, q, pages)
    _check_dtypes(op, q, pages, scales)
    _check_batch(op, q, batch)
    found = () if scales is None else arguments.arrays(op, ("float32",), scales=scales)
    heads = pool.shape(*pools)[0]
    if found and found[0].shape != (2, heads):
        raise ValueError(
            f"{op}: scales has shape {found[0].shape}; it must be {(2, heads)}: what the keys of each of {heads} heads "
            "are multiplied by, and their values. Try jnp.broadcast_to."
        )
    return q, *pools, *(x for _, x in batch), *found


def _check_pages(op: str, pool: Pool, q: Array, pages: Named) -> None:
    arrays, (stored, advice) = list(pages.values()), _STORED[type(pool)]
    wrong = f"{op}: q has shape {q.shape} and {' and '.join(f'{name} {x.shape}' for name, x in pages.items())}; "
    if q.ndim < 2 or any(x.ndim != 4 or x.shape != arrays[0].shape for x in arrays):
        raise ValueError(f"{wrong}they must be (..., H, D) and {stored}. {advice}")
    if type(pool) is Joined and arrays[0].shape[3] % 2:
        raise ValueError(f"{wrong}the last axis of pages holds a key and its value, and {arrays[0].shape[3]} is odd.")
    if type(pool) is ByToken and arrays[0].shape[2] % 2:
        raise ValueError(f"{wrong}the {arrays[0].shape[2]} rows of a token are no pairs of a key and a value. {advice}")
    heads, _, d = pool.shape(*arrays)
    if pool.size(*arrays) == 0:
        raise ValueError(f"{wrong}there must be one page at least, which nobody need have. Try jnp.zeros of a shape.")
    if q.shape[-1] != d:
        raise ValueError(f"{wrong}a query has {q.shape[-1]} elements and a key {d}; they must have as many. {advice}")
    if not heads or q.shape[-2] % heads:
        raise ValueError(
            f"{wrong}the {q.shape[-2]} query heads must be a multiple of the {heads} KV heads. "
            f"Try jnp.repeat(q, ..., axis=-2). {advice}"
        )


def _check_dtypes(op: str, q: Array, pages: Named, scales) -> None:
    dtypes = {x.dtype for x in pages.values()}
    wide = dtypes == {q.dtype}
    if not wide and dtypes != {jnp.dtype("int8")}:
        names = " and ".join(f"{name} {x.dtype}" for name, x in pages.items())
        raise ValueError(
            f"{op}: q is {q.dtype} and {names}; pages must be as q, or int8 with scales. Try q.astype, which is small."
        )
    if wide == (scales is not None):
        what = f"the pages are {q.dtype}, and scales are for int8" if wide else "the pages are int8, without scales"
        raise ValueError(f"{op}: {what}. Try {'scales=None' if wide else 'scales=jnp.ones((2, KH))'}.")


def _check_batch(op: str, q: Array, batch: list[tuple[str, Array]]) -> None:
    (of_lengths, lengths), (of_table, table) = batch
    for name, found, what in (
        (of_lengths, lengths.shape, "how many tokens each sequence has"),
        (of_table, table.shape[:-1] if table.ndim else None, "a row of pages for each sequence, and one axis more"),
    ):
        if found != q.shape[:-2]:
            shape = {of_lengths: lengths, of_table: table}[name].shape
            wanted = q.shape[:-2] if name == of_lengths else f"{(*q.shape[:-2], 'M')}".replace("'", "")
            raise ValueError(f"{op}: {name} has shape {shape}; for q of shape {q.shape} it must be {wanted}: {what}.")
