#!/usr/bin/env bash
# What only the tests need: Debian's torch 1.13 for the system's own python3 (the real old
# environment) with its headers for C++, a PostgreSQL server, and a browser that opens our pages.
# `make test` calls it; users need none of them.
set -euo pipefail

old_python=${TORCHMARK_OLD_PYTHON:-/usr/bin/python3}
missing=()
"$old_python" -c 'import torch' 2>/dev/null || missing+=(python3-torch)
"$old_python" - 2>/dev/null <<'END' || missing+=(libtorch-dev)
import importlib.util, os, sys
folder = os.path.dirname(importlib.util.find_spec("torch").origin)
sys.exit(not os.path.exists(folder + "/include/torch/csrc/api/include/torch/types.h"))
END
command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "test_tools: installing ${missing[*]} with apt (torch: 200 MB)"
if ! { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null; then
  echo "test_tools: the tests need ${missing[*]}. Run this once, then call make again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
  echo "TORCHMARK_OLD_PYTHON may name another interpreter that has an older torch." >&2
  exit 1
fi
