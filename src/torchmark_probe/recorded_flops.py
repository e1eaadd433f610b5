"""Floating-point operations of a call, by the formulas that torch has for its own counter.

They cover matrix products, convolutions and attention, forward and backward: what a model computes
its FLOPs with. For everything else the number is not known, and nobody guesses it. A torch without
the counter (before 2.0) knows none.
"""

from typing import Any, Callable, Dict, List, Optional


def flops_of(
    operator: Any, args: List[Any], kwargs: Dict[str, Any], result: Any
) -> Optional[int]:
    """Of one call that gave this result; None where it is not known."""
    formula = _formula(operator)
    if formula is None:
        return None
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except Exception:  # noqa: BLE001 - a formula for other arguments knows nothing of these
        return None


def _formula(operator: Any) -> Optional[Callable[..., Any]]:
    try:
        from torch.utils.flop_counter import (  # noqa: PLC0415 - an older torch lacks it
            flop_registry,
            sdpa_flop_count,
        )
    except ImportError:
        return None
    name = operator._schema.name
    if name == "aten::_scaled_dot_product_flash_attention_for_cpu":
        # The counter has the same attention under the names of other devices only.
        return lambda q, k, v, *_, **__: sdpa_flop_count(q.shape, k.shape, v.shape)
    if name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward":
        # Five matrix products of those sizes, where forward has two.
        return lambda _, q, k, v, *__, **___: 5 * sdpa_flop_count(q.shape, k.shape, v.shape) // 2
    return flop_registry.get(operator._overloadpacket)
