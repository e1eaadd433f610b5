"""torchmark in the place of `torch.utils.benchmark`, for scripts that cannot be edited.

    python -m torchmark.patch SCRIPT [ARGUMENT ...]

runs a script so. `torchmark.patch_torch()` does it for the process that calls it: whatever imports
`torch.utils.benchmark` or a module of it from then on gets torchmark's.
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
"""torch's module of this name takes seconds to import, so it is not imported to be replaced."""


def patch_torch() -> None:
    """Let `torch.utils.benchmark` be torchmark, in this process and from now on."""
    for module in _REPLACED:
        importlib.import_module(name_at_torch(module))  # what torchmark lacks is still found there
    for module in (*_REPLACED, _IMPORTS_A_COMPILER):
        replace_at_torch(module)
    parent, _, name = TORCHS_PACKAGE.rpartition(".")
    setattr(sys.modules[parent], name, sys.modules["torchmark"])


def main() -> None:
    """Run the script that the command line names, after the patch."""
    usage = "usage: python -m torchmark.patch SCRIPT [ARGUMENT ...]"
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(usage)  # noqa: T201 - what was asked for
        return
    if len(sys.argv) < 2:
        sys.exit(usage)
    script = Path(sys.argv[1])
    if not script.is_file():
        sys.exit(f"python -m torchmark.patch: {script} is not a file")
    patch_torch()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
