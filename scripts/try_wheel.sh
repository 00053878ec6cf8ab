#!/bin/sh
# try_wheel.sh VENV: the built wheel, installed with extra cpu in an empty environment and called
# from an empty folder, must run the demo. An editable install can't notice a file that is missing
# from the wheel.
set -eu
venv=$1
work=$(mktemp -d)
trap 'rm -rf "$work" "$venv"' EXIT
.venv/bin/python -m pip wheel -q --no-deps --wheel-dir "$work" .
rm -rf "$venv"
.venv/bin/python -m venv "$venv"
"$venv/bin/python" -m pip install -q -c constraints.txt "$(ls "$work"/*.whl)[cpu]"
program=$PWD/$venv/bin/hindsight-fast
mkdir "$work/empty"
cd "$work/empty"
export HINDSIGHT_HOME="$work/home" # so that the demo fetches its model, as on a new machine
"$program" demo --out example > demo.txt
tail -1 demo.txt
"$program" verify example/pool
