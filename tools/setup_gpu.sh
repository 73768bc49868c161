#!/bin/sh
# Installs the GPU's compiler into VENV-gpu, beside the environment, unless it is already there.
# Usage: tools/setup_gpu.sh VENV      with OPTIONAL set, a failure is reported and ignored
set -u
cd "$(dirname "$0")/.." || exit 1
unset PYTHONHOME PYTHONPATH

case "$(uname -sm)" in
    "Linux x86_64") ;;
    *)
        echo "No GPU compiler for $(uname -sm): it exists for Linux on x86-64. compile_gpu will say so." >&2
        [ -n "${OPTIONAL:-}" ]
        exit
        ;;
esac
jaxlib=$("$1/bin/python" -c 'from importlib.metadata import version; print(version("jaxlib"))') || exit 1
exec tools/put_beside.sh "$1" gpu "the GPU's compiler" "270 MB to download, 730 MB on disk" requirements-gpu.txt \
    "jax-cuda13-plugin==$jaxlib" "jax-cuda13-pjrt==$jaxlib"
