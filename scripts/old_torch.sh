#!/usr/bin/env bash
# Debian's torch 1.13 for the system's own python3: the real old environment of the tests.
# `make test` calls it; users need it only where they want such an environment themselves.
set -euo pipefail

old_python=${TORCHMARK_OLD_PYTHON:-/usr/bin/python3}
"$old_python" -c 'import torch' 2>/dev/null && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "old_torch: installing python3-torch with apt (200 MB)"
$as_root apt-get update -qq >/dev/null
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends python3-torch >/dev/null || {
  echo "old_torch: the tests of old torch versions need one. Run this once, then call make again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y python3-torch" >&2
  echo "or set TORCHMARK_OLD_PYTHON to an interpreter that has an older torch." >&2
  exit 1
}
