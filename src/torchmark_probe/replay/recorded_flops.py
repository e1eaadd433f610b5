"""Floating-point operations of a call, by the formulas that torch has for its own counter.

They cover matrix products, convolutions and attention, forward and backward: what a model computes
its FLOPs with. For everything else the number is not known, and nobody guesses it. A torch without
the counter (before 2.0) knows none.
"""

from typing import Any, Callable, Dict, List, Optional

import torch


def flops_of(operator: Any, args: List[Any], kwargs: Dict[str, Any], result: Any) -> Optional[int]:
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
