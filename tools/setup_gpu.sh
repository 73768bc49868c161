#!/bin/sh
# Puts the GPU's compiler into VENV-gpu, beside the environment; does nothing where it is already there.
# Usage: tools/setup_gpu.sh VENV [optional]      optional: where it cannot be had, say so and go on
set -u
cd "$(dirname "$0")/.." || exit 1
venv=$1 folder=$1-gpu log=$1/setup-gpu.log
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1

stop() {
    printf '%s\n' "$1" >&2
    [ "${2:-}" = optional ] && exit 0
    exit 1
}
case "$(uname -sm)" in
    "Linux x86_64") ;;
    *) stop "No GPU compiler for $(uname -sm): it exists for Linux on x86-64. compile_gpu will say so." "${2:-}" ;;
esac
jaxlib=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("jaxlib"))') || exit 1
pins=$(printf 'jaxlib %s\n' "$jaxlib"; cat requirements-gpu.txt)
[ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$pins" ] && exit 0

echo "Installing the GPU's compiler into $folder: 270 MB to download, 730 MB on disk."
rm -rf "$folder.new"
"$venv/bin/python" -m pip install --no-input --no-color --progress-bar off --no-deps --only-binary :all: \
    --target "$folder.new" -r requirements-gpu.txt "jax-cuda13-plugin==$jaxlib" "jax-cuda13-pjrt==$jaxlib" \
    >"$log" 2>&1 || {
    rm -rf "$folder.new"
    stop "The GPU's compiler was not installed: $(grep -E '^(ERROR|[A-Za-z]*Error)' "$log" | tail -n 1) (log: $log)" "${2:-}"
}
printf '%s\n' "$pins" >"$folder.new/stamp"
rm -rf "$folder"
mv "$folder.new" "$folder"
