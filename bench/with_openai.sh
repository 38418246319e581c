#!/bin/sh
# Runs bench_judge.py beside openai-python, in an environment of its own under build/.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv="$root/build/bench-openai"
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c "import openai, wireproof" 2>/dev/null; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --editable "$root" openai
fi
exec "$venv/bin/python" "$root/bench/bench_judge.py" "$@"
