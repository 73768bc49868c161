"""Operations that do not fit their arguments, or that the TPU does not have."""

import re

from course_lib.errors.row import Row

# What to write instead of an operation that kernels do not have; the keys are JAX's names.
_INSTEAD = {
    "cumsum": "multiply by a triangular matrix of ones (jnp.tril), or carry the sum through a fori_loop",
    "dynamic_slice": "slice the ref, not the value: x_ref[pl.ds(start, size)]",
    "dynamic_update_slice": "write to the ref, o_ref[pl.ds(start, size)] = value",
    "erfc": "use jax.scipy.special.erf, or jax.nn.gelu(x, approximate=True)",
    "reduce_prod": "multiply in a fori_loop; or, for positive numbers, jnp.exp of the sum of jnp.log",
    "rev": "let an index map count the blocks backwards; within a block, multiply by a matrix of zeros and ones",
    "scatter": "choose with jnp.where(row == i, new, x), or write to the ref, o_ref[i] = new",
    "scatter-add": (
        "add to the ref, o_ref[i] += x, in a fori_loop with the indices in SMEM; or multiply by a matrix of zeros and "
        "ones: (row == i).astype(jnp.float32) @ x sums repeated indices"
    ),
    "sort": "sort outside the kernel; for a maximum or its index, use jnp.max and jnp.argmax",
}


def _instead(op: str) -> dict[str, str]:
    return {"instead": _INSTEAD.get(op, "write it with operations that the TPU supports, or do it outside the kernel")}


def _other_way(why: str, operation: str) -> dict[str, str]:
    """Return what to try: a change of dtype or sizes only if the operation that the compiler names has others."""
    types = re.findall(r"vector<((?:\d+x)+)(\w+)>", operation)
    sizes = [tuple(map(int, shape.strip("x").split("x"))) for shape, _ in types]
    advice = []
    if any(dtype not in ("f32", "i32") for _, dtype in types):
        advice.append("cast to 32 bits before that line, and back after it")
    if any(shape[-1] % 128 or (shape[-2:-1] or (8,))[0] % 8 for shape in sizes if shape[:2] != (8, 128)):
        advice.append("pad the last two sizes to multiples of (8, 128)")
    return {"next": "; or ".join([*advice, "write that line with other operations", "do it outside the kernel"]) + "."}


def _asked_for(pair: str, algorithm: str) -> dict[str, str]:
    """Say what kind of precision a matmul asks for."""
    if pair != "?":
        return {"asked": "one for each side"}
    return {"asked": "a jax.lax.DotAlgorithm" if algorithm != "?" else "a jax.lax.DotAlgorithmPreset, or its name"}


ROWS = (
    Row(
        "reshape-size",
        r"TypeError: cannot reshape array of shape (?P<shape>\(.*?\)) \(size (?P<size>\d+)\) into shape "
        r"(?P<into>\(.*?\)) \(size (?P<wants>\d+)\)",
        "An array of {shape}, with {size} elements, cannot be reshaped to {into}, which has {wants}.",
        "take the sizes from the array's own shape, which differs from call to call; -1 stands for the remaining size.",
        "06",
    ),
    Row(
        "contraction",
        r"dot_general requires contracting dimensions to have the same shape, got \((?P<one>[\d, ]+?),?\) and "
        r"\((?P<other>[\d, ]+?),?\)",
        "The shapes of a matmul do not fit: the contracted axes have {one} elements on the left and {other} on the "
        "right.",
        "print both shapes. jnp.dot contracts the last axis of the left with the first of the right: blocks (bm, bk) "
        "and (bk, bn), with the same bk. dot_general contracts the axes that you name: name one that both share.",
        "07",
    ),
    Row(
        "precision",
        r"'DotAlgorithmPreset' object is not subscriptable|(?P<pair>Per-operand dot precision unsupported)|"
        r"(?P<algorithm>Unsupported dot precision)",
        "A matmul in the kernel asks for a precision that a TPU kernel does not support{where}: {asked}.",
        'write precision="default", "high" or "highest"; the last is float32 throughout.',
        "07",
        _asked_for,
    ),
    Row(
        "precision-of-narrow",
        r"Bad [lr]hs type.*?\"tpu\.matmul\".*?precision = #tpu\.contract_precision<\w+>.*?: "
        r"\(vector<(?:\d+x)+(?P<dtype>\w+)>",
        'The kernel multiplies {dtype} matrices with precision="high" or "highest"{where}. These split float32 values '
        "into bfloat16 parts, which narrower values do not need.",
        "remove precision; preferred_element_type=jnp.float32, or jnp.int32 for integers, accumulates in 32 bits.",
        "07",
    ),
    Row(
        "broadcast",
        r"ncompatible shapes for broadcasting: (?:shapes=\[)?(?P<shapes>\([^\n\]]*\))(?!.*ncompatible shapes)",
        "Arrays of shapes {shapes} are used in one operation, but they cannot be broadcast together.",
        "axes are compared from the last one, and must be equal or 1. For one value per row, use x[:, None], or a sum "
        "with keepdims=True.",
        "06",
    ),
    Row(
        "gather",
        r"Only take_along_axis-like gathers supported|Cannot do int indexing on TPU",
        "The kernel, or a jnp function in it, picks elements by an array of indices: x[indices], jnp.take. A TPU "
        "kernel cannot do that in general.",
        "let an index map read the indices and fetch whole blocks (scalar prefetch); or copy row by row in a "
        "fori_loop with the indices in SMEM; or multiply by a matrix of zeros and ones.",
        "12",
    ),
    Row(
        "strided",
        r"tpu\.strided_load|expected strides to be confined to \[1, 2\)",
        "The kernel takes a strided slice, such as x[::2]{where}. The TPU can do that only along rows, from a ref "
        "that is 128 lanes wide.",
        "turn the stride into an axis: x_ref[...].reshape(n // 2, 2, m)[:, 0] has every second row.",
        "06",
    ),
    Row(
        "empty",
        r"vector types must have positive constant sizes but got (?P<sizes>[-\d, ]+)",
        "A value in the kernel has no elements{where}: its shape is ({sizes}). A register cannot hold that.",
        "look for an empty slice. jax.lax.associative_scan makes such slices: write the scan as a loop.",
        "08",
    ),
    Row(
        "unimplemented",
        r"Unimplemented primitive in Pallas TPU lowering for \w+: (?P<op>[\w-]+)",
        "The TPU does not support `{op}` inside a kernel{where}.",
        "{instead}.",
        "06",
        _instead,
    ),
    Row(
        "compiler-refused",
        r"(?:Mosaic failed to compile TPU kernel.*?HLO name `[^`]*`|Pallas encountered an internal verification "
        r"error.*?Error details): (?P<why>[^\n]*?)\.?(?:: [%\"][^\n]*)?(?:\n|$)"
        r"(?:(?=.*?operation involved:\s*(?P<operation>[^\n]*))|)",
        "The TPU's compiler cannot translate this kernel{where}: {why}.",
        "{next}",
        "06",
        _other_way,
    ),
)
