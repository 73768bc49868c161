#!/bin/sh
# Opens JupyterLab at the first lesson, on this machine only. Usage: tools/lab.sh VENV     reads PORT and BROWSER
cd "$(dirname "$0")/.." || exit 1
venv=$1

# Say at once that a port is taken: JupyterLab finds out only after it has loaded everything.
probe='import socket, sys
def taken(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as JupyterLab opens it
        try: s.bind(("127.0.0.1", port))
        except OSError: return True
port = int(sys.argv[1])
if taken(port): sys.exit(f"Port {port} is taken. Try another: PORT={next(p for p in range(port + 1, 65536) if not taken(p))} make lab")'
[ -z "${PORT:-}" ] || "$venv/bin/python" -c "$probe" "$PORT" || exit 1

# Jupyter hides the pictures of a notebook that has not run here, so trust those of the course that changed since the
# last time.
[ -e "$venv/trusted" ] || touch -t 200001010000 "$venv/trusted"
touch "$venv/trusting"
find notebooks exercises solutions -name '*.ipynb' -newer "$venv/trusted" \
    -exec "$venv/bin/python" -m nbformat.sign {} + >/dev/null 2>&1
mv "$venv/trusting" "$venv/trusted"

set -- -y --ServerApp.ip=127.0.0.1 --ServerApp.root_dir="$PWD" \
    --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb
# Notebooks open unchanged (lab_contents.py says how), and the folders src, which are for authors, are not listed.
set -- "$@" --ServerApp.contents_manager_class=tools.lab_contents.Contents
for hidden in src __pycache__ '*.pyc' '*~'; do set -- "$@" --ContentsManager.hide_globs="$hidden"; done
# Log only the address and real trouble. Encryption is on because every kernel warns without it. Pings are off because
# server and page are on one machine, and Jupyter's own ping times cause a warning at each connection; a shorter timeout
# would close connections.
set -- "$@" --log-level=WARN --LabApp.log_level=WARN \
    --KernelManager.transport_encryption=auto --ServerApp.tornado_settings="{'ws_ping_interval': 0}"
[ -z "${PORT:-}" ] || set -- "$@" --ServerApp.port="$PORT" --ServerApp.port_retries=0  # this port, or a clear error
[ "$(id -u)" != 0 ] || set -- "$@" --allow-root
if [ "${BROWSER:-}" = none ]; then set -- "$@" --no-browser; unset BROWSER; fi
echo "JupyterLab starts. Ctrl-C here stops it."
exec "$venv/bin/python" -m jupyterlab "$@"
