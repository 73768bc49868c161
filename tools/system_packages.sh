#!/bin/sh
# Provides what tests need beside Python: bubblewrap for boxed grading, and a browser. It never fails, because tests
# that lack one of them are skipped.
# Usage: tools/system_packages.sh VENV
venv=$1
if [ -e /proc/version ] && ! command -v bwrap >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && [ ! -e "$venv/no-bwrap" ]; then
        echo "Installing bubblewrap with apt-get, for grading in a closed box (log: $venv/apt-bwrap.log)."
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update && apt-get install -y --no-install-recommends bubblewrap; } \
            >"$venv/apt-bwrap.log" 2>&1 </dev/null || : >"$venv/no-bwrap"
    else
        echo "Tests of boxed grading will be skipped: no bubblewrap here. To get it: sudo apt-get install bubblewrap"
    fi
fi
for browser in chromium chromium-browser google-chrome google-chrome-stable \
               "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
    command -v "$browser" >/dev/null 2>&1 && exit 0
done
for browser in "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}"/chromium-* "$HOME"/Library/Caches/ms-playwright/chromium-*; do
    [ -d "$browser" ] && exit 0
done
skipped="Browser tests will be skipped: no Chromium here. To get one: $venv/bin/python -m playwright install --with-deps chromium"
# Only root can install, and only one attempt is made: a failed installation is not retried at every run.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && [ ! -e "$venv/no-chromium" ]; then
    echo "Installing chromium and fonts-dejavu-core with apt-get, for the browser tests (log: $venv/apt.log)."
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } \
        >"$venv/apt.log" 2>&1 </dev/null && exit 0
    : >"$venv/no-chromium"
fi
echo "$skipped"
exit 0
