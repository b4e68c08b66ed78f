#!/usr/bin/env bash
# Makes .venv at the top of the repository and installs the project into it, editable, with what
# its tests need. Run it as often as you like: it does nothing while .venv is up to date.
#   --cpu     torch for machines without a GPU: 2.3 GB less to download
#   --dev     also the developers' tools: ruff, mypy, Sphinx, pre-commit
#   --locked  the very versions of tools/requirements.lock, with which the tests are run
# PYTHON=/path/to/python picks the interpreter for a new .venv.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=.venv
stamp=$venv/.setup-stamp
extras=all,test
cpu=
options=()
for option in "$@"; do
    case $option in
    --dev) extras=all,dev ;;
    --cpu) cpu=https://download.pytorch.org/whl/cpu ;;
    --locked) options+=(--constraint tools/requirements.lock) ;;
    *)
        echo "setup: there is no option $option; there are --cpu, --dev and --locked" >&2
        exit 2
        ;;
    esac
done

# Does this interpreter run, is it 3.11 to 3.14, and can it make environments?
suits() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
        >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.14 python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1234]*/bin/python; do
        if suits "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# What the environment was made from; it changes when the checkout moves, too.
fingerprint() {
    { printf '%s\n' "$root"; cat setup.cfg pyproject.toml setup.py tools/requirements.lock; } | cksum
}

# An environment with the developers' tools, or of other options, does for a call without any.
want=$(fingerprint)
made=$(cat "$stamp" 2>/dev/null || true)
if [ "${made%% :*}" = "$want" ] && [[ $# = 0 || "$made" = "$want : $*" ]] &&
    "$venv/bin/python" -c '' 2>/dev/null; then
    echo "setup: $venv is up to date"
    exit 0
fi

started=$SECONDS
# Start afresh where the environment is broken or was made for another place.
if ! { suits "$venv/bin/python" && grep -qF "$root/$venv/bin/python" "$venv/bin/pip"; } 2>/dev/null; then
    if ! python=$(find_python); then
        echo "setup: this project needs Python 3.11 to 3.14 with its venv module (on Debian the" \
            "python3-venv package), and none was found; install one or name it in PYTHON." >&2
        exit 1
    fi
    rm -rf "$venv"
    # Downloads and what is unpacked; pip would say only at the end that they do not fit.
    free=$(df -Pk . | awk 'END { print int($4 / 1000000) }') needed=${cpu:+3}
    if [ "$free" -lt "${needed:=10}" ]; then
        echo "setup: $root has $free GB of free disk, and about $needed GB are needed (with --cpu 3 GB)" >&2
        exit 1
    fi
    echo "setup: making $venv with $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    "$python" -m venv --clear "$venv"
fi

rm -f "$stamp"
echo "setup: installing (about 3 GB of downloads the first time, 0.7 GB with --cpu: some minutes)"
"$venv/bin/python" -m pip install --quiet --upgrade pip
if [ -n "$cpu" ]; then
    # First and from there alone: of two indexes, pip takes the one with the later version. What
    # torch requires comes with the rest: that index has few versions of it.
    torch=$(sed -n 's/^ *\(torch[>=].*\)/\1/p' setup.cfg)
    "$venv/bin/python" -m pip install --quiet --no-compile ${options[@]+"${options[@]}"} --no-deps --index-url "$cpu" "$torch"
fi
"$venv/bin/python" -m pip install --quiet --no-compile ${options[@]+"${options[@]}"} -e ".[$extras]"
# Of what is installed, a small part is imported; Python keeps it compiled, also where a variable tells it not to.
export PYTHONDONTWRITEBYTECODE=
"$venv/bin/python" -c 'import torch._inductor.compile_fx, torchrl.collectors, scipy.stats'
# Not beside the downloads: code is for a number of threads, and a run takes fewer beside other programs.
if [[ $extras = all,test ]]; then
    echo "setup: compiling the code of the README's training (a minute)"
    folder=$(mktemp -d)
    "$venv/bin/marinenav" train --agent PPO --total-timesteps 1 save_dir="$folder" >/dev/null 2>&1 </dev/null ||
        echo "setup: it could not be compiled; the first training does it or says why"
    rm -rf "$folder"
fi
printf '%s : %s\n' "$want" "$*" >"$stamp"
echo "setup: done in $((SECONDS - started)) s"
