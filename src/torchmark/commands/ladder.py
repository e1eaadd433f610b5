"""`torchmark overrides ladder`: what each kind of input costs over a plain Tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.overheads import SUITE
from torchmark.commands.run import TIME_AND_COUNT, run
from torchmark.model.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.commands.spine import Listener, Place
    from torchmark.model.result import Metric
    from torchmark.model.run import Run


def ladder(
    *,
    metrics: Sequence[Metric] = TIME_AND_COUNT,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run:
    """Measure the suite `overrides` here, and return the run; its report is a table per call."""
    return run(
        (SUITE,), metrics=metrics, store=store, tags=tags, resume=resume, progress=progress,
        kind=RunKind.LADDER,
    )  # fmt: skip
