"""``make bench``: measurements on a machine with an NVIDIA GPU, predictions for a TPU on any other.

python benchmarks/bench.py --predicted    predictions, on any machine
"""

import sys

import bench_gpu
import bench_kernels
from jax._src import hardware_utils


def main(argv: list[str]) -> None:
    predicted = "--predicted" in argv or not hardware_utils.has_visible_nvidia_gpu()
    tool = bench_kernels if predicted else bench_gpu
    tool.main([argument for argument in argv if argument != "--predicted"])


if __name__ == "__main__":
    main(sys.argv[1:])
