"""Small specs for the tests of sweeps; none needs torch to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmark.define.sweep.points import all_cases
from torchmark.define.sweep.spec import spec_of

if TYPE_CHECKING:
    from torchmark.define.sweep.points import SweepCase
    from torchmark.define.sweep.spec import SweepSpec


def double(x: Any, *, times: int = 2) -> Any:
    return x * times


def spec(**changes: Any) -> SweepSpec:
    """Of a function over two dimensions, with two configs."""
    named = {
        "model": double,
        "model_init_params": ["times"],
        "input_params": [["batch", "features"]],
        "input_scales": {"batch": [1, 2, 4], "features": [8, 16], "times": [2]},
        "job_configs": ["pt fp32", "ort fp32"],
    }
    return spec_of(**{**named, **changes})


def cases(where: str = "", **changes: Any) -> list[SweepCase]:
    return all_cases(spec(**changes), where=where)
