"""The scan of google-deepmind/recurrentgemma: a linear recurrence along the sequence, called in four ways."""

import jax.numpy as jnp

from public_kernels.adapter import BF16, Adapter, Project, array
from public_kernels.references import linear_scan

PATH = "recurrentgemma/jax/pallas.py"


def scan(**options):
    from recurrentgemma.jax import pallas

    return lambda x, a, *h0: pallas.lru_pallas_scan(x, a, *h0, **options)


def reversed_scan(x, a):
    states, last = linear_scan(x[:, ::-1], a[:, ::-1])
    return states[:, ::-1], last


def rounded_scan(x, a):
    """Return the scan in f32, with all states but the last one rounded to bf16."""
    states, last = linear_scan(x.astype(jnp.float32), a.astype(jnp.float32))
    return states.astype(BF16), last


X, LONG = array(2, 64, 256), array(4, 2048, 2560)

PROJECTS = (
    Project(
        name="google-deepmind/recurrentgemma",
        package="recurrentgemma",
        stubs=("flax", "einops", "torch", "sentencepiece", "orbax", "jaxtyping"),
        adapters=(
            Adapter(
                name="linear scan",
                path=PATH,
                style="pallas_call",
                load=scan,
                reference=linear_scan,
                args=lambda: (X, X),
                arrays="f32[2,64,256] twice",
                large=(LONG, LONG),
                large_arrays="f32[4,2048,2560] twice",
            ),
            Adapter(
                name="linear scan from a state, blocks of 16",
                path=PATH,
                style="pallas_call",
                load=lambda: scan(max_seq_block_size=16),
                reference=linear_scan,
                args=lambda: (X, X, array(2, 256)),
                arrays="f32[2,64,256] twice, f32[2,256]",
            ),
            Adapter(
                name="linear scan, reversed",
                path=PATH,
                style="pallas_call",
                load=lambda: scan(reverse=True, max_seq_block_size=32),
                reference=reversed_scan,
                args=lambda: (X, X),
                arrays="f32[2,64,256] twice",
            ),
            Adapter(
                name="linear scan, bf16",
                path=PATH,
                style="pallas_call",
                load=scan,
                reference=rounded_scan,
                args=lambda: (array(1, 32, 128, dtype=BF16),) * 2,
                arrays="bf16[1,32,128] twice",
            ),
        ),
    ),
)
