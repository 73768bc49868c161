#!/bin/sh
# Everything about our kernels on this machine's NVIDIA GPU, in one command of at most eight minutes: whether they are
# right, how fast they are beside XLA, and which blocks are the fastest. It needs a Python with JAX for CUDA, jaxtyping
# and psutil, and writes to OUT (build/on_gpu).
#
#   benchmarks/on_gpu.sh                           checks, rows, tune, in this order
#   PYTHON=.venv/bin/python benchmarks/on_gpu.sh checks
set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
out=${OUT:-build/on_gpu}
mkdir -p "$out"
cache=$(mktemp -d) && trap 'rm -rf "$cache"' EXIT
export JAX_COMPILATION_CACHE_DIR="$cache" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0  # a row is compiled twice
export PYTHONPATH="$PWD" PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=2

set -- ${*:-checks rows tune}
for part in "$@"; do
    case $part in
        checks | rows | tune) ;;
        *) echo "$part: no such part. There are checks, rows and tune." >&2 && exit 2 ;;
    esac
done
for part in "$@"; do
    echo "== $part"
    case $part in
        checks) timeout 90 "$python" benchmarks/gpu_checks.py --json "$out/checks.json" ;;
        rows) timeout 320 "$python" benchmarks/bench_gpu.py --json "$out/rows.json" --limit-s 290 ;;
        tune) timeout 70 "$python" benchmarks/bench_gpu.py --tune --limit-s 50 ;;
    esac >"$out/$part.txt" 2>&1
    tail -n 40 "$out/$part.txt"
done
