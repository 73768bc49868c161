#!/bin/sh
# Installs packages, without their dependencies, into VENV-NAME beside the environment, unless they are already there.
# Usage: tools/put_beside.sh VENV NAME TITLE SIZE REQUIREMENTS [PACKAGE...]
# With OPTIONAL set, a failure is reported and ignored.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1-$2 log=$1/setup-$2.log venv=$1 title=$3 size=$4 requirements=$5
shift 5
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1

pins=$(printf '%s\n' "$@"; cat "$requirements") || exit 1
[ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$pins" ] && exit 0

echo "Installing $title into $folder: $size."
rm -rf "$folder.new"
"$venv/bin/python" -m pip install --no-input --no-color --progress-bar off --no-deps --only-binary :all: \
    --target "$folder.new" -r "$requirements" "$@" >"$log" 2>&1 || {
    rm -rf "$folder.new"
    echo "$title was not installed: $(grep -E '^(ERROR|[A-Za-z]*Error)' "$log" | tail -n 1) (log: $log)" |
        awk '{ print toupper(substr($0, 1, 1)) substr($0, 2) }' >&2
    [ -n "${OPTIONAL:-}" ]
    exit
}
printf '%s\n' "$pins" >"$folder.new/stamp"
rm -rf "$folder"
mv "$folder.new" "$folder"
