"""What cost counts is what the compiler's own dumps say: bytes of every copy that runs, and VMEM of every window."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from test_grid import X, Y, matmul
from test_grid_following import WB, XB, small_pipeline

from course_lib import compiler, cost, grid
from course_lib.compiler.child import service

_COPY = re.compile(r"= dma\.(hbm_to_vmem|vmem_to_hbm) .*?/\*size_in_granules=\*/(\d+)")
_GRANULE = 32  # bytes


def copied(fn, *args) -> dict[str, int]:
    """Bytes of the copies that the compiled program runs, by direction, from the simulator's list of instructions."""
    report = compiler.compile_tpu(fn, *args)
    assert report.ok and report.extrapolation is None, report
    (path,) = service._worker(True, service.MEMORY_BYTES).folder.glob("*_critical_path.txt")
    moved = {"hbm_to_vmem": 0, "vmem_to_hbm": 0}
    for direction, granules in _COPY.findall(path.read_text()):
        moved[direction] += int(granules) * _GRANULE
    return moved


def blockwise(kernel, blocks, index_maps, out_map, steps, out):
    specs = [pl.BlockSpec(b, m) for b, m in zip(blocks, index_maps, strict=True)]
    out_spec = pl.BlockSpec(blocks[0], out_map)
    return lambda *args: pl.pallas_call(kernel, out_shape=out, grid=steps, in_specs=specs, out_specs=out_spec)(*args)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def row_sum_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def zero():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


A = jax.ShapeDtypeStruct((1024, 512), jnp.float32)
KERNELS = {
    "matmul": (matmul, X, Y),
    "matmul, columns first": (functools.partial(matmul, order="jik"), X, Y),
    "add with a row block that stays": (
        blockwise(
            add_kernel,
            [(128, 512), (128, 512)],
            [lambda i, j: (4 * i + j, 0), lambda i, j: (i, 0)],
            lambda i, j: (4 * i + j, 0),
            (2, 4),
            A,
        ),
        A,
        A,
    ),
    "sum over column blocks": (
        blockwise(
            row_sum_kernel,
            [(256, 128)],
            [lambda i, j: (i, j)],
            lambda i, j: (i, 0),
            (4, 4),
            jax.ShapeDtypeStruct((1024, 128), jnp.float32),
        ),
        A,
    ),
    "pl.kernel with emit_pipeline": (small_pipeline, XB, WB),
}


@needs_libtpu
@pytest.mark.parametrize("name", KERNELS)
def test_traffic_is_what_the_compiled_program_copies(name, nothing_kept):
    fn, *args = KERNELS[name]
    rows = cost.traffic(grid.walk(fn, *args))
    ours = {
        "hbm_to_vmem": sum(row.bytes for row in rows if row.direction == "in"),
        "vmem_to_hbm": sum(row.bytes for row in rows if row.direction == "out"),
    }
    assert ours == copied(fn, *args)


def copy_blocks(shape, block, dtype, scratch=(), mode=None):
    def kernel(x_ref, o_ref, *scratch_refs):
        total = jnp.zeros((), jnp.float32)
        for ref in scratch_refs:
            ref[...] = jnp.full(ref.shape, pl.program_id(0)).astype(ref.dtype)
            total += ref[...].astype(jnp.float32).sum()
        o_ref[...] = (x_ref[...].astype(jnp.float32) + total).astype(o_ref.dtype)

    spec = pl.BlockSpec(block, lambda *i: (*i, *[0] * (len(shape) - 1)), pipeline_mode=mode)
    x = jax.ShapeDtypeStruct(shape, dtype)
    steps = pl.cdiv(shape[0], block[0])
    fn = pl.pallas_call(
        kernel, out_shape=x, grid=(steps,), in_specs=[spec], out_specs=spec, scratch_shapes=list(scratch)
    )
    return fn, x


@needs_libtpu
@pytest.mark.parametrize(
    "case",
    [
        dict(shape=(1024, 512), block=(256, 512), dtype=jnp.float32),
        dict(shape=(1024, 512), block=(256, 512), dtype=jnp.float32, mode=pl.Buffered(1)),
        dict(shape=(1024, 512), block=(8, 512), dtype=jnp.bfloat16),
        dict(shape=(256, 512), block=(256, 512), dtype=jnp.float32),  # one step
        dict(shape=(200, 512), block=(256, 512), dtype=jnp.float32),  # one step, larger than the array
        dict(shape=(4096,), block=(1024,), dtype=jnp.float32),
        dict(shape=(4096,), block=(256,), dtype=jnp.float32),
        dict(shape=(64, 24, 512), block=(1, 24, 512), dtype=jnp.bfloat16),
        dict(shape=(256, 512), block=(64, 512), dtype=jnp.float32, scratch=[pltpu.VMEM((3, 5, 100), jnp.bfloat16)]),
        dict(shape=(256, 512), block=(64, 512), dtype=jnp.float32, scratch=[pltpu.VMEM((3, 100), jnp.float32)]),
        dict(shape=(1, 128), block=(1, 128), dtype=jnp.float32),
        dict(shape=(1, 1000), block=(1, 1000), dtype=jnp.bfloat16),
        dict(shape=(2, 128), block=(2, 128), dtype=jnp.int8),
        dict(shape=(300,), block=(300,), dtype=jnp.bfloat16),
        dict(shape=(1200,), block=(1200,), dtype=jnp.int8),
        dict(shape=(256, 512), block=(64, 512), dtype=jnp.int4),
        dict(shape=(40, 128), block=(40, 128), dtype=jnp.uint4),
    ],
    ids=str,
)
def test_vmem_is_what_the_compiler_sets_aside(case):
    fn, x = copy_blocks(**case)
    report = compiler.compile_tpu(fn, x, simulate=False)
    ours = [row.bytes for row in cost.vmem(grid.walk(fn, x))]
    theirs = [piece.bytes for piece in report.vmem if piece.purpose in ("input window", "output window", "scratch")]
    assert sorted(ours) == sorted(theirs), f"{report.vmem}"


NARROW = [
    ((1, 128), jnp.bfloat16),
    ((1, 256), jnp.int8),
    ((3, 1, 128), jnp.bfloat16),
    ((2, 128), jnp.int8),
    ((300,), jnp.bfloat16),
    ((100,), jnp.int8),
    ((1, 128), jnp.bool_),
    ((5, 128), jnp.bool_),
    ((3, 5, 100), jnp.bool_),
    ((300,), jnp.bool_),
]


@needs_libtpu
def test_narrow_scratch_takes_whole_words():
    """Each piece alone takes another number of bytes, so the sorted lists tell them apart as far as they differ."""
    fn, x = copy_blocks((32, 128), (8, 128), jnp.float32, scratch=[pltpu.VMEM(*piece) for piece in NARROW])
    report = compiler.compile_tpu(fn, x, simulate=False)
    theirs = sorted(piece.bytes for piece in report.vmem if piece.purpose == "scratch")
    assert theirs == sorted(cost.padded_bytes(*piece) for piece in NARROW), report.vmem


@needs_libtpu
def test_booleans_are_int32_in_vmem():
    """Arrays of 128 MiB as int32: smaller ones XLA keeps in VMEM whole, and the kernel needs no window."""

    def masked_kernel(mask_ref, x_ref, o_ref):
        o_ref[...] = mask_ref[...] & (x_ref[...] > 0)

    block = pl.BlockSpec((512, 1024), lambda i: (i, 0))
    mask, x = (jax.ShapeDtypeStruct((64 * 512, 1024), dtype) for dtype in (jnp.bool_, jnp.float32))
    fn = pl.pallas_call(masked_kernel, out_shape=mask, grid=(64,), in_specs=[block, block], out_specs=block)
    report = compiler.compile_tpu(fn, mask, x, simulate=False)
    theirs = [piece.bytes for piece in report.vmem if piece.purpose in ("input window", "output window")]
    assert theirs == [row.bytes for row in cost.vmem(grid.walk(fn, mask, x))] == [2 * 512 * 1024 * 4] * 3


# Index maps over a grid of (1, 4), with the buffers that the compiler gives their blocks: all smaller than the array.
MAPS = {
    "constant": (lambda i, j: (0, 0), 1),
    "constant, not the first": (lambda i, j: (3, 0), 1),
    "an axis of one step": (lambda i, j: (2 * i + 1, 0), 1),
    "an axis of several": (lambda i, j: (j, 0), 2),
    "the same at every step, of an axis of several": (lambda i, j: (j // 4, 0), 2),
    "the same, chosen": (lambda i, j: (jnp.where(j < 9, i, 1), 0), 2),
    "the same, the smaller": (lambda i, j: (jnp.minimum(j, 0), 0), 2),
    "an axis of several, and nothing done to it": (lambda i, j: (j // 1 + 0, 0), 2),
    "times nothing": (lambda i, j: ((j + 1) * 0, 0), 1),
    "modulo 1": (lambda i, j: (j % 1 + 1, 0), 1),
    "less itself": (lambda i, j: (2 * j - 2 * j, 0), 1),
    "either way the same": (lambda i, j: (jnp.where(j < 4, 2, 2), 0), 1),
}


def with_maps(maps, steps, mode=None):
    """A kernel with an input for each map, and whose output has the last one."""

    def kernel(*refs):
        refs[-1][...] = sum(ref[...] for ref in refs[:-1])

    specs = [pl.BlockSpec((8, 128), index_map, pipeline_mode=mode) for index_map in maps]
    x = jax.ShapeDtypeStruct((32, 128), jnp.float32)
    fn = pl.pallas_call(kernel, out_shape=x, grid=steps, in_specs=specs, out_specs=specs[-1])
    return fn, [x] * len(maps)


@needs_libtpu
def test_a_block_that_no_axis_moves_has_one_buffer():
    fn, args = with_maps([index_map for index_map, _ in MAPS.values()], (1, 4))
    report = compiler.compile_tpu(fn, *args, simulate=False)
    theirs = {piece.name: piece.bytes // (8 * 128 * 4) for piece in report.vmem}
    ours = {row.name: row.buffers for row in cost.vmem(grid.walk(fn, *args))}
    assert ours == theirs and list(ours.values())[:-1] == [buffers for _, buffers in MAPS.values()]


@needs_libtpu
def test_a_block_that_no_axis_moves_has_one_buffer_though_two_are_asked_for():
    maps = [lambda i, j: (0, 0), lambda i, j: (j * 0, 0), lambda i, j: (j, 0)]
    fn, args = with_maps(maps, (1, 4), pl.Buffered(2))
    theirs = {
        piece.name: piece.bytes // (8 * 128 * 4) for piece in compiler.compile_tpu(fn, *args, simulate=False).vmem
    }
    assert theirs == {row.name: row.buffers for row in cost.vmem(grid.walk(fn, *args))}
    assert list(theirs.values()) == [1, 1, 2, 2]


@needs_libtpu
def test_in_a_grid_of_one_step_two_buffers_are_not_given_either():
    x = jax.ShapeDtypeStruct((1024, 512), jnp.float32)
    one = pl.BlockSpec((512, 512), lambda i: (i, 0), pipeline_mode=pl.Buffered(2))

    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    fn = pl.pallas_call(copy_kernel, out_shape=x, grid=(1,), in_specs=[one], out_specs=one)
    theirs = [piece.bytes for piece in compiler.compile_tpu(fn, x, simulate=False).vmem]
    assert theirs == [row.bytes for row in cost.vmem(grid.walk(fn, x))] == [512 * 512 * 4] * 2


@needs_libtpu
def test_a_call_without_a_grid_has_no_smaller_blocks():
    """So ``cost`` need not say how many buffers these would have."""
    fn, args = with_maps([lambda: (0, 0)], ())
    refused = compiler.compile_tpu(fn, *args)
    assert not refused.ok and "the call has no grid" in refused.error.what


@needs_libtpu
@pytest.mark.parametrize(
    "dtype", [jnp.float32, jnp.bfloat16, jnp.int8, jnp.int4, jnp.bool_], ids=["f32", "bf16", "int8", "int4", "bool"]
)
def test_legal_sizes_are_those_the_compiler_takes(dtype):
    """Of all multiples of 8 rows up to 64: libtpu 0.0.48 refuses what is not legal; 0.0.50 takes more for int8."""
    legal = cost.legal_sizes(64 * 7, axis=0, rank=2, dtype=dtype, even=False)
    for rows in range(8, 65, 8):
        fn, x = copy_blocks((64 * 7, 128), (rows, 128), dtype)
        taken = compiler.compile_tpu(fn, x, simulate=False).ok
        if rows in legal or compiler.libtpu_version().startswith("0.0.48"):
            assert taken == (rows in legal), rows
