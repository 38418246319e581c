#!/bin/sh
# mypy sees one package: the core and the five folders side by side, as in the wheel.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
tree="$root/build/types/wireproof"
rm -rf "$root/build/types" && mkdir -p "$tree"
for entry in "$root"/src/wireproof/* "$root"/suites "$root"/runners "$root"/reference_server "$root"/reports; do
    [ "$(basename "$entry")" = __pycache__ ] || ln -s "$entry" "$tree/$(basename "$entry")"
done
cd "$root/build/types"
types() { "${PYTHON:-python3}" -m mypy --config-file "$root/pyproject.toml" --strict "$@"; }
types -p wireproof "$@"
# The tests see the same package. Folders without an __init__.py import what lies beside them, as under pytest.
MYPYPATH=".:$root/tests/reports:$root/tests/runners" types --explicit-package-bases "$root/tests" "$@"
