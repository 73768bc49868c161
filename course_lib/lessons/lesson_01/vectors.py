"""The vectors that several exercises of lesson 1 are judged with."""

VECTORS = ("x: f32[N]", "y: f32[N]")
LENGTHS = ({"N": 4096}, {"N": 1000}, {"N": 8})
