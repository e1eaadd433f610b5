"""What a comparison of two environments has to do, and how a result of it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.execution import reason_to_skip
from torchmark.model.result import Result, Status, utc_now

if TYPE_CHECKING:
    from torchmark.model.case import Case
    from torchmark.model.result import Payload
    from torchmark.model.run import PlannedResult


def case_in_b(planned: PlannedResult) -> Case:
    """What runs in the second environment."""
    return planned.other or planned.case


def reason_against(planned: PlannedResult) -> str | None:
    """Why it is not measured; None if it is. Planning puts what an environment cannot run there."""
    return reason_to_skip(planned.case, planned.metric)


def make_result(
    planned: PlannedResult,
    status: Status = Status.DONE,
    *,
    reason: str = "",
    payload: Payload | None = None,
    seconds: float = 0.0,
) -> Result:
    """What came of it: the figures, or why there are none."""
    return Result(
        case=planned.case,
        other=planned.other,
        metric=planned.metric,
        environments=planned.environments,
        status=status,
        finished=utc_now(),
        reason=reason,
        payload=payload,
        seconds=seconds,
    )
