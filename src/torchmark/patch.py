"""Replace `torch.utils.benchmark` by torchmark, for scripts that cannot be edited.

    python -m torchmark.patch SCRIPT [ARGUMENT ...]

runs a script with the replacement. `torchmark.patch_torch()` replaces it in the calling process:
later imports of `torch.utils.benchmark` and of its modules return torchmark's.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

from torchmark.utils.torchs import TORCHS_PACKAGE, name_at_torch, replace_at_torch

_REPLACED = (
    "torchmark.utils._stubs",
    "torchmark.utils.common",
    "torchmark.utils.compare",
    "torchmark.utils.cpp_jit",
    "torchmark.utils.fuzzer",
    "torchmark.utils.sparse_fuzzer",
    "torchmark.utils.timer",
    "torchmark.utils.valgrind_wrapper.timer_interface",
    "torchmark.utils.valgrind_wrapper",
    "torchmark.op_fuzzers.binary",
    "torchmark.op_fuzzers.sparse_binary",
    "torchmark.op_fuzzers.sparse_unary",
    "torchmark.op_fuzzers.spectral",
    "torchmark.op_fuzzers.unary",
    "torchmark.op_fuzzers",
    "torchmark.utils",
    "torchmark",
)

_IMPORTS_A_COMPILER = "torchmark.utils.compile"
"""Replaced without importing torch's module of this name, which takes seconds to import."""


def patch_torch() -> None:
    """Replace `torch.utils.benchmark` by torchmark in this process."""
    for module in _REPLACED:
        importlib.import_module(name_at_torch(module))  # keeps names that torchmark lacks
    for module in (*_REPLACED, _IMPORTS_A_COMPILER):
        replace_at_torch(module)
    parent, _, name = TORCHS_PACKAGE.rpartition(".")
    setattr(sys.modules[parent], name, sys.modules["torchmark"])


def main() -> None:
    """Run the script from the command line with `torch.utils.benchmark` replaced."""
    usage = "usage: python -m torchmark.patch SCRIPT [ARGUMENT ...]"
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(usage)  # noqa: T201 - the help text
        return
    if len(sys.argv) < 2:
        sys.exit(usage)
    script = Path(sys.argv[1])
    if not script.is_file():
        sys.exit(f"python -m torchmark.patch: script not found: {script}")
    patch_torch()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
