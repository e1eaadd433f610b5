"""Floating-point operations of a call or a run, by the formulas that torch's own counter has.

They cover matrix products, convolutions and attention, forward and backward: what a model computes
its FLOPs with. For everything else the number is not known, and nobody guesses it. A torch without
the counter (before 2.0) knows none.
"""

from typing import Any, Callable, Dict, List, Optional

import torch


def flops_of_call(
    operator: Any, args: List[Any], kwargs: Dict[str, Any], result: Any
) -> Optional[int]:
    """Of one call that gave this result; None where it is not known."""
    formula = _formula(operator)
    if formula is None:
        return None
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except Exception:  # a formula for other arguments knows nothing of these
        return None


def _formula(operator: Any) -> Optional[Callable[..., Any]]:
    try:
        from torch.utils.flop_counter import flop_registry  # noqa: PLC0415 - an older torch lacks it
    except ImportError:
        return None
    namespace, _, name = operator.name().partition(".")[0].partition("::")
    known_as = _SAME.get(name, name)
    return flop_registry.get(getattr(getattr(torch.ops, namespace), known_as, None))


_SAME = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
}
"""Operators that compute the same as another one, and begin with the same arguments; the counter
has the other one alone."""


def flops_of_run(run: Callable[[], Any]) -> Optional[int]:
    """Of one run, by torch's own counter; None where it knows of none, and before torch 2.1.

    It knows matrix products, convolutions and attention. What is computed beside them is not in.
    """
    try:
        from torch.utils.flop_counter import (  # noqa: PLC0415 - an older torch lacks it
            FlopCounterMode,
            flop_registry,
        )
    except ImportError:
        return None
    formulas = {}
    for name, same in _SAME.items():
        operator = getattr(torch.ops.aten, name, None)
        formula = flop_registry.get(getattr(torch.ops.aten, same, None))
        if operator is not None and formula is not None:
            formulas[operator] = _as_it_is(formula)
    try:
        with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            run()
    except Exception:  # an operator that cannot be looked at from Python
        return None
    return int(counter.get_total_flops()) or None


def _as_it_is(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of torch's own, which it would otherwise make ready for tensors twice."""

    def same(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    same._get_raw = True  # type: ignore[attr-defined]  # noqa: SLF001 - what the counter asks for
    return same
