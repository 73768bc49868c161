#!/bin/sh
# Puts nbgrader into VENV-nbgrader, beside the environment, for the round trip through it (`make test-all`).
# Usage: tools/setup_nbgrader.sh VENV      with OPTIONAL set: where it cannot be had, say so and go on
cd "$(dirname "$0")/.." || exit 1
exec tools/put_beside.sh "$1" nbgrader nbgrader "20 MB to download, 80 MB on disk" requirements-nbgrader.txt
