#!/bin/sh
# Makes or refreshes a virtual environment with workfleet in it. Needs nothing but a Python; does nothing when all is there.
#
#   tools/env.sh DIR example|all [PYTHON]     PYTHON: a command, a path or a version (3.12); empty: the best one found
#   tools/env.sh --find [VERSION]             prints the interpreter it would take, exits 1 if there is none
#
# `example` is the package and what `make run` needs; `all` adds every extra and what the tests need. A stamp in DIR holds
# the checksum of the files that decide what is installed, so a second run takes milliseconds and a changed pin is noticed.
set -eu
cd "$(dirname "$0")/.."

# An interpreter counts if it starts (a pyenv shim may not), is new enough and can make environments (Debian splits that off).
usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints the interpreter of version $1; for an empty $1 the newest that the project is tested on, else any python3. What is
# on PATH comes before what only pyenv holds.
find_python() {
    versions=${1:-3.13 3.12 3.11 3}
    for candidate in $(printf 'python%s ' $versions) $(printf "${PYENV_ROOT:-$HOME/.pyenv}/versions/%s.*/bin/python " $versions); do
        if usable "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

if [ "$1" = --find ]; then
    find_python "${2:-}"
    exit
fi

dir=$1 what=$2 wanted=${3:-}
python=$dir/bin/python

version_of() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null; }

case $wanted in
    "") chosen= ;;
    [0-9]*) chosen=$(find_python "$wanted") || { echo "No Python $wanted found on PATH or under pyenv." >&2; exit 1; } ;;
    *)
        chosen=$wanted
        usable "$chosen" || { echo "PYTHON=$chosen is not a Python 3.11 or newer that can make environments (venv, ensurepip)." >&2; exit 1; }
        ;;
esac

sum=$(cat pyproject.toml constraints.txt "$0" | cksum)
installed() { [ "$(cat "$dir/.installed-$1" 2>/dev/null)" = "$sum" ]; }

# An environment whose interpreter is gone, that was left half made, or that is not the one asked for is made anew.
sound() {
    version_of "$python" >/dev/null || return 1
    [ -z "$chosen" ] || [ "$(version_of "$python")" = "$(version_of "$chosen")" ] || return 1
    installed all || installed "$what" || "$python" -c 'import pip' 2>/dev/null
}

if ! sound; then
    if [ -z "$chosen" ]; then
        chosen=$(find_python "") || {
            echo "workfleet needs Python 3.11 or newer with venv, and found none (tried python3.13, python3.12, python3.11, python3)." >&2
            echo "Install one (on Debian and Ubuntu: apt install python3 python3-venv), or name one: make … PYTHON=/path/to/python3" >&2
            exit 1
        }
    fi
    echo "Creating $dir with Python $("$chosen" -c 'import platform; print(platform.python_version())')"
    "$chosen" -m venv --clear "$dir"
fi

if installed all || installed "$what"; then
    exit 0
fi

pip() { "$python" -m pip --disable-pip-version-check --no-input -qq "$@"; }
case $what in
    example) echo "Installing workfleet and what the example needs into $dir"; set -- --editable . --group example ;;
    all) echo "Installing workfleet, every extra and the test tools into $dir"; set -- --editable '.[all]' --group test ;;
    *) echo "env.sh: '$what' is neither example nor all" >&2; exit 2 ;;
esac
# First a pip that knows --group, and the pinned build back end. Not compiling halves the time: Python compiles what it imports.
pip install --no-compile --constraint constraints.txt --upgrade pip hatchling
pip install --no-compile --constraint constraints.txt --no-build-isolation "$@"
echo "$sum" >"$dir/.installed-$what"
