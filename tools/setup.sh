#!/usr/bin/env bash
# Makes .venv at the top of the repository and installs the project into it, editable, with the
# development tools. Run it as often as you like: it does nothing while .venv is up to date.
# PYTHON=/path/to/python picks the interpreter for a new .venv.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=.venv
stamp=$venv/.setup-stamp

# Does this interpreter run, is it 3.11 or 3.12, and can it make environments?
suits() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
        >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[12]*/bin/python; do
        if suits "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# What the environment was made from; it changes when the checkout moves, too.
fingerprint() {
    { printf '%s\n' "$root"; cat setup.cfg pyproject.toml; } | cksum
}

want=$(fingerprint)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    echo "setup: $venv is up to date"
    exit 0
fi

started=$SECONDS
# Start afresh where the environment is broken or was made for another place.
if ! { suits "$venv/bin/python" && grep -qF "$root/$venv/bin/python" "$venv/bin/pip"; } 2>/dev/null; then
    if ! python=$(find_python); then
        echo "setup: this project needs Python 3.11 or 3.12 with its venv module (on Debian the" \
            "python3-venv package), and none was found; install one or name it in PYTHON." >&2
        exit 1
    fi
    echo "setup: making $venv with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    "$python" -m venv --clear "$venv"
fi

rm -f "$stamp"
echo "setup: installing (about 3 GB of downloads the first time, 6 GB on disk: some minutes)"
"$venv/bin/python" -m pip install --quiet --upgrade pip
"$venv/bin/python" -m pip install --quiet -e '.[dev,all]'
printf '%s\n' "$want" >"$stamp"
echo "setup: done in $((SECONDS - started)) s"
