#!/bin/sh
# Installs nbgrader into VENV-nbgrader, beside the environment, for the round-trip test (`make test-all`).
# Usage: tools/setup_nbgrader.sh VENV      with OPTIONAL set, a failure is reported and ignored
cd "$(dirname "$0")/.." || exit 1
exec tools/put_beside.sh "$1" nbgrader nbgrader "20 MB to download, 80 MB on disk" requirements-nbgrader.txt
