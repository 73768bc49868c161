"""Programs made by hand for the tests of the bundle viewer."""

from course_lib.compiler import Bundle, Code, Loop, Place
from course_lib.viz import BundleViewer

OFFERED = {"MXU": 4, "VPU": 4, "EUP": 1, "pop": 2, "load": 3, "store": 1, "scalar": 2}
LINE = "    o_ref[...] = jnp.exp(x_ref[...] * 2.0)"


def _bundle(n: int, kernel: str, depth: int) -> Bundle:
    """Five kinds that take turns; the second goes on in the third, which begins nothing of its own for the EUP."""
    exp, times = Place("kernel.py", 7, 17, 42), Place("kernel.py", 7, 25, 41)
    kinds = [
        (("%v9_v1 = vld [vmem:[%s1_s2]]", "%s7_s1 = sadd.s32 1, %s3_s2"), (times, None), {"load": 1, "scalar": 1}),
        (("%v8_v2 = vmul.f32 2.0, %v9_v1", "%5 = vpow2.f32 %v3_v2"), (times, exp), {"VPU": 2}),
        (("%v8_v4 = vmul.f32 2.0, %v9_v3",) * 4, (times,) * 4, {"VPU": 4, "EUP": 1}),
        ((), (), {}),
        (("%9 = dma.done.wait %s1_s2, 4",), (None,), {"load": 1}),
    ]
    words, places, slots = kinds[n % len(kinds)]
    return Bundle(op=kernel, address=n, depth=depth, instructions=words, places=places, slots=slots)


def code(length: int = 60, loops: tuple[Loop, ...] | None = None, kernels: int = 1, **changes) -> Code:
    """A program of ``length`` bundles, with a loop of 9 turns around one of 13 if nothing else is said."""
    around = Loop(first=10, last=50, turns=9), Loop(first=20, last=31, turns=13)
    loops = around if loops is None else loops
    each = -(-length // kernels)
    facts = dict(
        name="double",
        chip="v5e",
        bundles=tuple(
            _bundle(n, f"kernel{n // each}", sum(loop.first <= n <= loop.last for loop in loops)) for n in range(length)
        ),
        loops=loops,
        offered=OFFERED,
        sources={("kernel.py", 7): LINE},
        left_out=0,
        versions="",
    )
    return Code(**facts | changes)


def viewer(**changes) -> BundleViewer:
    return BundleViewer(code(**changes))
