#!/bin/sh
# Makes the virtual environment, or brings it up to date; does nothing, fast, when it already is.
# Usage: tools/setup.sh VENV learner|dev [OVERRIDES]    pins in the file OVERRIDES replace those of the same name.
set -u
cd "$(dirname "$0")/.." || exit 1
venv=$1 level=$2 overrides=${3:-}
log=$venv/setup.log
here=$(pwd -P)
# Another project's settings must not leak into this environment, nor pip put anything outside it.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}"

# An offline bundle (make offline) has its wheels with it: then pip asks nobody else.
offline=''
[ ! -d wheels ] || offline="--no-index --find-links wheels"

say() { printf '%s\n' "$1"; }
fail() {
    [ ! -t 1 ] || printf '\r\033[K'
    say "$1" >&2
    exit 1
}
[ -z "$overrides" ] || [ -f "$overrides" ] || fail "There is no $overrides: JAX= is 0.12, or left out for the version the course pins."

files() {  # of one level
    echo requirements.txt
    [ "$1" = learner ] || echo requirements-dev.txt
    [ -z "$overrides" ] || echo "$overrides"
}
# Files of the environment. `home` says where it was made and with what, `installing` is there while pip may leave it half done,
# `stamp-LEVEL` says which pins it holds and how many things lie in site-packages (fewer later: someone removed something).
entries() { ls "$venv"/lib/python3*/site-packages 2>/dev/null | wc -l | tr -d ' '; }
examiners=requirements-examiners.txt  # of a contributor's environment, and without their dependencies
# This script counts too: what it writes into the environment below belongs to it as much as the pins do.
pins() { { files "$1"; [ "$1" = learner ] || echo $examiners; echo tools/setup.sh; } | xargs cat | cksum; }
healthy() {
    [ ! -e "$venv/installing" ] && [ -f "$venv/home" ] || return 1
    { read -r made_in; read -r made_with; } <"$venv/home"
    [ "$made_in" = "$here" ] && "$venv/bin/python" -c '' 2>/dev/null || return 1
    [ -z "${PYTHON:-}" ] || [ "$made_with" -ef "$(tools/find_python.sh 2>/dev/null)" ] || return 1
    for stamp in "$venv"/stamp-*; do
        [ -f "$stamp" ] || continue
        { read -r _; read -r had; } <"$stamp"
        [ "$(entries)" -ge "$had" ] || return 1
    done
}
up_to_date() {
    healthy && [ -f "$venv/stamp-$level" ] || return 1
    read -r stamped <"$venv/stamp-$level"
    [ "$stamped" = "$(pins "$level")" ]
}
up_to_date && exit 0

# What stands in the way and is not ours is never emptied: somebody may have an environment, or work, in there. Ours is an empty
# folder, one in which we were interrupted, and an environment with our `home` in it.
foreign() {
    if [ -L "$venv" ]; then
        echo "a symbolic link to $(readlink "$venv"): remove the link with rm $venv (what it points to stays)"
    elif [ -e "$venv" ] && [ ! -d "$venv" ]; then
        echo "a file: move it away with mv $venv $venv.old"
    elif [ -d "$venv" ] && [ ! -e "$venv/installing" ] && [ -n "$(ls -A "$venv")" ]; then
        [ -f "$venv/home" ] && grep -qs '^home *=' "$venv/pyvenv.cfg" ||
            echo "a folder that make did not create: move it away with mv $venv $venv.old"
    fi
}
healthy || theirs=$(foreign)
[ -z "${theirs:-}" ] || fail "Nothing was changed, because $venv is $theirs, then run the same command again."

if healthy; then python=$venv/bin/python; else python=$(tools/find_python.sh) || exit 1; fi

# One `make` at a time. The kernel drops this lock when the last process holding it ends, so it cannot go stale.
(: >"$venv.lock") 2>/dev/null || fail "Cannot write in $here: no right to, or the disk is full."
exec 9>"$venv.lock"
lock='import fcntl, sys; fcntl.flock(9, int(sys.argv[1]))'  # 6: exclusive, or fail at once; 2: exclusive, wait
if ! "$python" -c "$lock" 6 2>/dev/null; then
    say "Another make is installing into $venv: waiting for it."
    "$python" -c "$lock" 2 2>/dev/null  # a file system without locks: go on without
fi
up_to_date && exit 0

pip=''
tidy() {  # pip fetches everything before it installs anything: cut short until then, it has changed nothing
    rm -rf "$venv/tmp"
    [ ! -f "$venv/home" ] || grep -q '^Installing collected packages' "$log" 2>/dev/null || rm -f "$venv/installing"
}
stopped() {
    trap '' INT TERM HUP
    [ -z "$pip" ] || { kill "$pip" 2>/dev/null; wait "$pip" 2>/dev/null; }
    tidy
    [ ! -t 1 ] || printf '\r\033[K'
    say "Stopped. Run the same command again: it goes on from what is already fetched."
    exit 130
}
trap stopped INT TERM HUP

explain() {  # one line out of the log: what failed and what to do
    tidy
    free=$(df -Pk "$venv" 2>/dev/null | awk 'END { print $4 }')
    if grep -qiE 'no space left|errno 28|quota exceeded|errno 122' "$log" || [ "${free:-1}" = 0 ]; then
        why="the disk is full: free about 3 GB in $here"
    elif [ "$1" = 137 ]; then
        why="the system killed pip, most often because memory ran out: close other programs"
    elif grep -qE 'CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError' "$log"; then
        why="this network swaps certificates and pip does not trust its own: set PIP_CERT to your organisation's certificate file"
    elif grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|ProtocolError|IncompleteRead|ConnectionResetError|Max retries exceeded|Temporary failure in name resolution|Network is unreachable' "$log"; then
        why="the package index cannot be reached: check the network or the proxy"
    elif [ -n "$offline" ] && missing=$(grep -oE 'No matching distribution found for [^ ]+' "$log"); then
        why="the folder wheels has no ${missing##* } for $("$venv/bin/python" -V) on $(uname -sm): it is for $(cat wheels/for.txt), so choose that Python (PYTHON=python3.13), or fetch wheels for this one (make offline)"
    elif missing=$(grep -oE 'No matching distribution found for [^ ]+' "$log"); then
        why="there is no ready-made ${missing##* } for $("$venv/bin/python" -V) on $(uname -sm): try another Python (make PYTHON=python3.12), or Colab"
    elif grep -q 'Permission denied' "$log"; then
        why="a file cannot be written (Permission denied): make clean, or give the folder back to yourself with chown"
    else
        why=$(grep -E '^(ERROR|[A-Za-z]*Error)' "$log" | tail -n 1)
        why=${why:-"pip gave no reason (exit status $1)"}
    fi
    fail "Setup failed: $why. Then run the same command again. (log: $log)"
}

if healthy; then
    say "Installing into $venv."
    : >"$log"
else
    python=$(tools/find_python.sh) || exit 1
    say "Making $venv with $("$python" -V): 1 to 3 minutes, about 2 GB, all of it in this folder."
    mkdir -p "$venv" 2>/dev/null || fail "Cannot make the folder $venv in $here: no right to, or the disk is full."
    find "$venv/" -mindepth 1 -delete 2>/dev/null || fail "Cannot clear $venv: make clean, or remove it by hand."
    free=$(df -Pk "$venv" 2>/dev/null | awk 'END { print $4 }')
    case ${free:-?} in
        *[!0-9]*) ;;  # no figure, no opinion
        *) [ "$free" -gt 2500000 ] ||
            fail "Setup failed: the disk is almost full: $((free / 1024)) MB free in $here, about 2500 MB needed. Free some, then run the same command again." ;;
    esac
    { : >"$venv/installing" && : >"$log"; } 2>/dev/null || fail "Setup failed: the disk is full. Free about 3 GB in $here, then run the same command again."
    "$python" -m venv "$venv" >>"$log" 2>&1 || explain $?
    printf '%s\n' "$here" "$python" >"$venv/home"
fi

# The pins of all files together; those of a later file win. The blanks keep a marker such as `; sys_platform == "linux"`.
files "$level" | xargs awk '
    /^[A-Za-z0-9]/ { name = tolower($0); sub(/[^a-z0-9._-].*/, "", name); gsub(/[-_.]+/, "-", name)
                     if (!(name in pin)) order[++n] = name
                     pin[name] = $0 }
    END { for (i = 1; i <= n; i++) print pin[order[i]] }' >"$venv/wanted.txt"
wanted=$(($(wc -l <"$venv/wanted.txt")))

: >"$venv/installing"
mkdir -p "$venv/tmp"  # pip's scratch space, here: /tmp is often small

count() { grep -cE "$1" "$log" 2>/dev/null; }
progress() {
    of=$((wanted - $(count '^Ignoring ')))
    if [ "$(count '^Installing collected')" -gt 0 ]; then
        now="installing, $(($(ls -d "$venv"/lib/python3*/site-packages/*.dist-info | wc -l) - 1))"  # all but pip itself
    else
        now=$(count '^ *(Downloading|Using cached|Processing) [^ ]*\.whl |^Requirement already satisfied: [^ ]+==')
        if [ "$now" -gt 0 ]; then now="fetching, $now"; else now="looking up, $(count '^Collecting ')"; fi
    fi
    now="$now of $of packages, $((seconds / 60)):$(printf %02d $((seconds % 60)))"
}
started=$(date +%s)
seconds=0
shown=0
{  # some shells report a killed child on their own: the line that explains it comes below
    # Ready-made wheels only: nobody should need a compiler.
    TMPDIR="$here/$venv/tmp" "$venv/bin/python" -m pip install --no-input --no-color --progress-bar off --no-warn-script-location \
        --only-binary :all: $offline -r "$venv/wanted.txt" >>"$log" 2>&1 &
    pip=$!
    while kill -0 "$pip"; do
        sleep 0.3
        seconds=$(($(date +%s) - started))
        if [ -t 1 ]; then progress; printf '\r%s\033[K' "$now"
        elif [ $((seconds - shown)) -ge 20 ]; then progress; say "$now"; shown=$seconds
        fi
    done
    wait "$pip"; status=$?; pip=''
} 2>/dev/null
[ "$status" = 0 ] || explain "$status"
[ "$level" = learner ] || "$venv/bin/python" -m pip install --no-input --no-color --progress-bar off --no-deps \
    --only-binary :all: $offline -r $examiners >>"$log" 2>&1 || explain $?

# This folder itself is importable in the environment. A relative path, and no build tool to fetch.
# `import keras` finds JAX: without a setting Keras looks for TensorFlow, which is not here. Python runs this line whenever it
# starts, in notebooks and child processes too, and it leaves a KERAS_BACKEND that the user has set alone.
for site in "$venv"/lib/python3*/site-packages; do
    printf '%s\n' ../../../.. 'import os; os.environ.setdefault("KERAS_BACKEND", "jax")' >"$site/course.pth"
done
# JupyterLab shall neither ask about news nor look for updates, and show our pages, to which the notebooks link, not their
# Markdown. And a saved notebook keeps the state of its widgets:
# without it, a reader who comes back after the kernel has ended finds "Error displaying widget" for each of them.
lab_settings=$venv/share/jupyter/lab/settings/overrides.d
mkdir -p "$lab_settings"
cat >"$lab_settings/course.json" <<'END'
{
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false},
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
    "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": true}
}
END
# Does it start? An old processor or a strange libc shows here and not in lesson 00.
"$venv/bin/python" -c 'import jax, jupyterlab' >>"$log" 2>&1 || explain $?

rm -rf "$venv/tmp" "$venv/installing"
for ready in learner "$level"; do printf '%s\n' "$(pins "$ready")" "$(entries)" >"$venv/stamp-$ready"; done
[ ! -t 1 ] || printf '\r\033[K'
progress
say "$venv is ready: $of packages, $((seconds / 60)) min $((seconds % 60)) s."
