"""The vectors with which several exercises of lesson 1 are judged."""

VECTORS = ("x: f32[N]", "y: f32[N]")
LENGTHS = ({"N": 4096}, {"N": 1000}, {"N": 8})
