"""Stages for the tests of ``viz.traffic`` and ``viz.gradient_flow``."""

from course_lib.viz import Stage

MIB = 1 << 20

UNFUSED = [
    Stage("max of rows", reads={"x": 64 * MIB}, writes={"m": 32 << 10}),
    Stage("subtract, exp", reads={"x": 64 * MIB, "m": 32 << 10}, writes={"e": 64 * MIB}),
    Stage("sum of rows", reads={"e": 64 * MIB}, writes={"s": 32 << 10}),
    Stage("divide", reads={"e": 64 * MIB, "s": 32 << 10}, writes={"o": 64 * MIB}),
]
FUSED = [Stage("softmax kernel", reads={"x": 64 * MIB}, writes={"o": 64 * MIB})]
SOFTMAX = {"unfused": UNFUSED, "fused": FUSED}

_DX = Stage("product for dx", reads={"dy": 128 * MIB, "w": 8 * MIB}, writes={"dx": 64 * MIB})
_DW = Stage("product for dw", reads={"dy": 128 * MIB, "x": 64 * MIB}, writes={"dw": 8 * MIB})
SAVED = (
    [
        Stage("product", reads={"x": 64 * MIB, "w": 8 * MIB}, writes={"y": 128 * MIB}),
        Stage("gelu", reads={"y": 128 * MIB}, writes={"o": 128 * MIB}),
    ],
    [Stage("gelu backward", reads={"do": 128 * MIB, "y": 128 * MIB}, writes={"dy": 128 * MIB}), _DX, _DW],
)
RECOMPUTED = (
    [Stage("product and gelu", reads={"x": 64 * MIB, "w": 8 * MIB}, writes={"o": 128 * MIB})],
    [
        Stage("product again, gelu backward", {"do": 128 * MIB, "x": 64 * MIB, "w": 8 * MIB}, {"dy": 128 * MIB}),
        _DX,
        _DW,
    ],
)
GELU = {"save y": SAVED, "recompute y": RECOMPUTED}
