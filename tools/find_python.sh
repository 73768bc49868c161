#!/bin/sh
# Prints the path of a Python that can run the course (3.13 or 3.12, else 3.14), or one line on how to get one.
# A name on PATH proves nothing (pyenv leaves shims that fail, Debian ships Python without venv), so each candidate is run.
set -u
: "${HOME:=/nonexistent}"

probe='
import sys
def no(why):
    print("no %d.%d.%d%s" % (sys.version_info[:3] + (why,)))
    sys.exit()
if not (3, 12) <= sys.version_info[:2] <= (3, 14):
    no("")
import sysconfig
if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**32:
    no(", not an ordinary 64-bit CPython")
try:
    import ensurepip, venv
except ImportError:
    no(" without its venv module")
try:
    import ctypes, sqlite3, ssl
except ImportError as error:
    no(" built without " + str(error.name).strip("_"))
# Inside an active virtual environment, report the Python that made it, because the environment may be replaced.
print("ok %d.%d %s" % (sys.version_info[:2] + (sys._base_executable,)))
'
spare=''    # a 3.14: it fits, but is used only without a 3.13 or 3.12
refused=''  # the first candidate that ran but did not fit
no_venv=''  # the first that only lacks venv

try() {
    [ -f "$1" ] && [ -x "$1" ] || return 0
    answer=$("$1" -c "$probe" </dev/null 2>/dev/null) || answer=''
    case $answer in
        'ok 3.14 '*) [ -n "$spare" ] || spare=${answer#ok 3.14 } ;;
        'ok '*) answer=${answer#ok }; echo "${answer#* }"; exit 0 ;;
        'no '*'without its venv module') [ -n "$no_venv" ] || no_venv=$1 ;;
        'no '*) [ -n "$refused" ] || refused="$1 is ${answer#no }" ;;
    esac
}

if [ -n "${PYTHON:-}" ]; then
    path=$(command -v "$PYTHON" 2>/dev/null) || path=''
    try "$path"
    [ -z "$spare" ] || { echo "$spare"; exit 0; }
    if [ -z "$path" ]; then refused="$PYTHON is not there"
    elif [ -n "$no_venv" ]; then refused="$PYTHON has no venv module (Debian, Ubuntu: sudo apt install python3-venv)"
    elif [ -n "$refused" ]; then refused="$PYTHON ${refused#"$path "}"
    else refused="$PYTHON does not run as a Python"
    fi
    echo "PYTHON=$refused: the course needs Python 3.12 or 3.13 (or leave PYTHON out, and one is looked for)." >&2
    exit 1
fi

# Try every folder on PATH, not only the first hit, because a failing shim can hide a good Python behind it.
for name in python3.13 python3.12 python3.14 python3 python; do
    IFS=:
    for folder in $PATH; do unset IFS; try "$folder/$name"; done
    unset IFS
done
for minor in 13 12 14; do
    for path in "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor"*/bin/python; do try "$path"; done
    for root in "${CONDA_PREFIX:-}" "${CONDA_EXE:+${CONDA_EXE%/*/*}}" "$HOME/miniconda3" "$HOME/anaconda3" \
                "$HOME/miniforge3" "$HOME/mambaforge" /opt/conda; do
        [ -n "$root" ] || continue
        for path in "$root/bin/python3.$minor" "$root"/envs/*/bin/python3."$minor"; do try "$path"; done
    done
    for path in "${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/python}"/*/bin/python3."$minor"; do
        try "$path"
    done
    for folder in /opt/homebrew/bin /usr/local/bin; do try "$folder/python3.$minor"; done
done
[ -z "$spare" ] || { echo "$spare"; exit 0; }

has() { command -v "$1" >/dev/null 2>&1; }
if [ -n "$no_venv" ]; then
    echo "$no_venv would do, but has no venv module: sudo apt install python3-venv, then run the same command again." >&2
    exit 1
fi
if has uv; then how='uv python install 3.13'
elif has pyenv; then how='pyenv install 3.13'
elif has brew; then how='brew install python@3.13'
elif has apt-get; then how='sudo apt install python3 python3-venv (Ubuntu 24.04, Debian 13 or newer), or with uv (docs.astral.sh/uv): uv python install 3.13'
else how='with uv (docs.astral.sh/uv): uv python install 3.13'
fi
echo "No Python 3.12 or 3.13 here${refused:+ ($refused)}. To get one: $how. Then run the same command again." >&2
exit 1
