#!/usr/bin/env bash
# Makes .venv with torchmark (editable) and everything the checks need; `make setup` calls it.
# System packages come from apt where this user may install them; otherwise the one command
# that installs them is printed. With CI=true what is missing is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
missing=()
command -v valgrind >/dev/null || missing+=(valgrind)
command -v g++ >/dev/null || missing+=(g++)
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
  as_root=none
  if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; fi
  if command -v apt-get >/dev/null && [ "$as_root" != none ]; then
    echo "setup: installing ${missing[*]} with apt"
    { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null || as_root=none
  fi
  if [ "$as_root" = none ] || ! command -v apt-get >/dev/null; then
    echo "setup: ${missing[*]} could not be installed by this user. Run this once, then call make again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
    # valgrind and g++ serve the counting and C++ parts; without ensurepip nothing can go on.
    if [ "${CI:-}" = true ] || [[ " ${missing[*]} " == *" python3-venv "* ]]; then exit 1; fi
  fi
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "setup: torchmark needs Python 3.10 or newer, '$python' is $("$python" -V). Set PYTHON=..." >&2; exit 1; }
is_ready=yes
for file in pyproject.toml constraints.txt scripts/setup.sh; do
  [ .venv/.ready -nt "$file" ] || is_ready=no
done
[ $is_ready = no ] || exit 0
[ -x .venv/bin/python ] || "$python" -m venv .venv
echo "setup: installing torchmark and its tools into .venv (about a minute the first time)"
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]' 2>&1 | { grep -v '^WARNING: Location' || true; }
touch .venv/.ready
