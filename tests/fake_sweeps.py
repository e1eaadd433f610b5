"""Sweeps that take no time: cases are measured by a script in place of worker processes."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torchmark.commands import spine
from torchmark.commands import sweep as command
from torchmark.engine.sweeping import results_of
from torchmark.model.run import Began, MachineSpeeds
from torchmark_probe.loops.sampling import Sampling
from torchmark_probe.zygote.messages import Kernel, Swept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from torchmark.engine.sweeping import News, WantedCase

SPEC = """
def model(x):
    return x + 1
model_init_params = []
input_params = [["batch", "features"]]
input_scales = {"batch": [1, 2, 3], "features": [8]}
job_configs = ["pt fp32", "pt fp64"]
"""

SPEEDS = MachineSpeeds(
    small_call_seconds=1e-6,
    bytes_per_second={1024: 5e10},
    flops_per_second={"float32": 1e11, "float64": 5e10},
)


class FakeSweep:
    """What stands in for worker processes; its fields say how the next sweep goes."""

    def __init__(self) -> None:
        self.measured: list[tuple[str, bool]] = []
        """The title of each case that was measured, and whether its time was taken."""

        self.skipped_dtypes: tuple[str, ...] = ()
        self.failed_dtypes: tuple[str, ...] = ()
        self.interrupt_after: int | None = None
        """Cases after which Ctrl-C comes."""

        self.time_limits: list[float] = []
        """What a case might take, for each call."""

        self.torch = "2.13.0"

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(command, "_workers_for", self._workers)
        monkeypatch.setattr(command, "measure_in_workers", self._measure)
        monkeypatch.setattr(spine, "measure_speeds", lambda *_: SPEEDS)

    @contextlib.contextmanager
    def _workers(self, _spec: object) -> Iterator[FakeSweep]:
        yield self

    def start(self, _threads: int, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: {"torch": self.torch, "python": "3.11.7"})

    def _measure(
        self, _spec: object, wanted: Sequence[WantedCase], *_: Any, time_limit: float
    ) -> News:
        self.time_limits.append(time_limit)
        for number, each in enumerate(wanted):
            if number == self.interrupt_after:
                raise KeyboardInterrupt
            for metric in each.metrics:
                yield Began(case=each.case, metric=metric)
            yield from results_of(each, self._swept(each), 0.1)

    def _swept(self, each: WantedCase) -> Swept:
        if each.point.dtype in self.skipped_dtypes:
            return Swept("skipped", "not installed")
        if each.point.dtype in self.failed_dtypes:
            return Swept("failed", "RuntimeError: no luck")
        self.measured.append((each.case.title, any(m.value == "time" for m in each.metrics)))
        # Times differ from one measurement to the next, so that a second one is seen.
        seconds = (10 + len(self.measured)) * 1e-6
        blocks = (seconds,) * 40
        return Swept(
            "measured",
            sampling=Sampling(1, blocks, blocks, (1.0,) * 40, 1.0, 1e-9),
            flops=128,
            bytes=64,
            max_error=0.0,
            peak_memory_bytes=32,
            kernels=[Kernel("aten::add", 1.0, 1e-6)],
        )
