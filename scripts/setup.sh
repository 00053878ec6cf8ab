#!/bin/sh
# setup.sh VENV EXTRA [GROUP...]: a virtual environment with this project (extra cpu or gpu) and
# the named dependency groups. Does nothing where that is there already; an interrupted or
# outdated environment is made anew. CONSTRAINTS names the file of exact versions.
set -eu
venv=$1 extra=$2 constraints=${CONSTRAINTS:-constraints.txt}
shift 2

# A candidate is run, not looked up: a shim may be there and have nothing behind it.
is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}
python=${PYTHON:-python3}
if ! is_new_enough "$python"; then
    if [ "$python" != python3 ]; then
        echo "PYTHON=$python can't be run, or is older than Python 3.11" >&2
        exit 1
    fi
    for python in python3.14 python3.13 python3.12 python3.11 ""; do
        [ -n "$python" ] || { echo "Python 3.11 or later is needed; name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
        is_new_enough "$python" && break
    done
fi
version=$("$python" -V)

# One set-up at a time: `make -j demo test` runs two.
if command -v flock >/dev/null 2>&1; then
    exec 9>"$venv.lock"
    flock 9
fi

# What the environment was made from; another content, place or Python means another environment.
want="$version $extra $(pwd) $(cat pyproject.toml "$constraints" | cksum)"
if [ -e "$venv/.installing" ] || [ "$(cat "$venv/.made-from" 2>/dev/null)" != "$want" ]; then
    rm -rf "$venv"
    echo "setting up $venv ($extra build, a minute or two the first time)" >&2
    "$python" -m venv "$venv"
    touch "$venv/.installing"
    "$venv/bin/python" -m pip install -q -c "$constraints" --upgrade pip
    "$venv/bin/python" -m pip install -q -c "$constraints" -e ".[$extra]"
    echo "$want" > "$venv/.made-from"
    rm "$venv/.installing"
fi
for group in "$@"; do
    [ -e "$venv/.group-$group" ] && continue
    touch "$venv/.installing"
    "$venv/bin/python" -m pip install -q -c "$constraints" --group "$group"
    touch "$venv/.group-$group"
    rm "$venv/.installing"
done
