"""A profile for https://www.speedscope.app: a "sampled" profile of the stacks in `folded`.

A sample is a stack and its weight the instructions of it, so the unit is none of speedscope's
units of time: "none".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchmark.callgrind.folded import SMALLEST_SHARE, frame_label, stacks
from torchmark.callgrind.profile import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.callgrind.profile import Profile, ProfiledFunction

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: Profile, name: str, smallest: float = SMALLEST_SHARE) -> str:
    """JSON text; `name` is the title that speedscope shows."""
    samples = sorted(
        stacks(profile, smallest),
        key=lambda stack: [profile.functions[function][:3] for function in stack.frames],
    )
    return document(
        name,
        frames=[_frame(function) for function in profile.functions],
        samples=[stack.frames for stack in samples],
        weights=[stack.cost for stack in samples],
    )


def document(
    name: str,
    *,
    frames: Sequence[dict[str, str]],
    samples: Sequence[Sequence[int]],
    weights: Sequence[int],
) -> str:
    """JSON text of one profile; a sample has the places of its frames, the outermost first."""
    sampled = {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return json.dumps(
        {
            "$schema": SCHEMA,
            "exporter": "torchmark",
            "name": name,
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": [sampled],
        }
    )


def _frame(function: ProfiledFunction) -> dict[str, str]:
    frame = {"name": frame_label(function)}
    if function.source_file != UNKNOWN:
        frame["file"] = function.source_file
    return frame
