"""Write the list of torch's composite operators, which the importer of execution traces needs.

    python scripts/composite_operators.py > src/torchmark/capture/traces/composite_operators.txt

A composite operator is made of others before it comes to a kernel: it is registered as
CompositeImplicitAutograd. Which ones are is known to torch alone, and traces are read without it.
"""

from __future__ import annotations

import torch


def composite_operators() -> list[str]:
    """`namespace.name.overload` of each, in order."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and has_kernel(name, "CompositeImplicitAutograd")
    ]
    return sorted(_with_overload(name.replace("::", ".")) for name in names)


def _with_overload(name: str) -> str:
    return name if name.count(".") == 2 else f"{name}.default"


if __name__ == "__main__":
    print(f"# The composite operators of torch {torch.__version__.partition('+')[0]}:")
    print("# scripts/composite_operators.py writes this file.")
    print("\n".join(composite_operators()))
