"""One replay carried out by a command: chosen, measured, shown and kept as it goes."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmark.analyse.replay import understood
from torchmark.cli.run_display import display_for
from torchmark.cli.running import heed_signals
from torchmark.define.expansion.selection import selected
from torchmark.engine.cores import on_cores, usable_cores
from torchmark.engine.environment_facts import environment_of
from torchmark.engine.execution import Stage
from torchmark.engine.files import write_whole
from torchmark.engine.measuring import now
from torchmark.engine.replay_zygotes import ReplayZygotes
from torchmark.engine.replaying import HotReplay, calls_of, case_of, speeds_of
from torchmark.engine.replaying_in_order import OrderReplay, usual_step
from torchmark.engine.reservations import reserve_lanes
from torchmark.errors import InvalidArgumentError
from torchmark.model.replay_record import Backend, Replay, ReplayMode
from torchmark.model.result import Metric
from torchmark.report import replay_csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchmark.cli.run_display import Display
    from torchmark.engine.cores import Division
    from torchmark.engine.replaying import ReplayWish
    from torchmark.model.replay_record import ReplayedCall
    from torchmark.model.trace import Trace

_SAVE_SECONDS = 2.0
"""Between two times that the CSV is written with what is measured so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be replayed."""

    file: Path
    trace: Trace
    pattern: str
    """Words of the calls that are meant; empty for all."""

    mode: ReplayMode
    wish: ReplayWish
    csv: Path | None
    """Where the calls are written as they come."""


@dataclass(slots=True)
class _Kept:
    """The replay so far, in the CSV as it comes: what ends the process leaves it there."""

    replay: Replay
    csv: Path | None
    _next_save: float = field(default=0.0)

    def update(self, call: ReplayedCall) -> None:
        calls = tuple(call if each.number == call.number else each for each in self.replay.calls)
        self.replay = replace(self.replay, calls=calls)
        if self.csv is None or time.monotonic() < self._next_save:
            return
        begun = time.monotonic()
        with contextlib.suppress(OSError):  # whoever writes it in the end says what is wrong
            write_whole(self.csv, replay_csv.render(understood(self.replay)).encode())
        took = time.monotonic() - begun  # grows with the replay: a tenth of the time at most
        self._next_save = time.monotonic() + max(_SAVE_SECONDS, 10 * took)


def replay_trace(asked: Asked, *, quiet: bool) -> tuple[Replay, bool]:
    """The replay, and whether Ctrl-C cut it short."""
    kept = _Kept(_begun(asked), asked.csv)
    heed_signals()
    try:
        with (
            ReplayZygotes(asked.wish.threads) as zygotes,
            reserve_lanes(usable_cores(), asked.wish.threads) as division,
        ):
            environment = environment_of(zygotes.facts(), Path.cwd())
            kept.replay = replace(kept.replay, environment=environment)
            _follow(asked, kept, zygotes, division, quiet=quiet)
    except KeyboardInterrupt:
        return kept.replay, True
    return kept.replay, False


def _begun(asked: Asked) -> Replay:
    wish = asked.wish
    return Replay(
        trace=str(asked.file),
        started=now(),
        mode=asked.mode,
        backends=wish.backends,
        calls=tuple(_wanted(asked)),
        steps=1 if asked.mode is ReplayMode.ORDER else _steps(asked.trace),
        threads=wish.threads,
        seed=wish.seed,
        unseen=asked.trace.unseen,
    )


def _wanted(asked: Asked) -> list[ReplayedCall]:
    """The calls that the words mean; an error that says what to do if there are none."""
    step = None
    if asked.mode is ReplayMode.ORDER:
        if not asked.trace.steps:
            raise InvalidArgumentError(
                f"{asked.file}: the trace has no order of calls; use --mode hot"
            )
        step = usual_step(asked.trace)
    calls = calls_of(asked.trace, step)
    if not calls:
        raise InvalidArgumentError(f"{asked.file}: the trace has no calls, so nothing to replay")
    cases = {case_of(call, asked.wish, Backend.EAGER): call for call in calls}
    found = [cases[case] for case in selected(cases, asked.pattern)]
    if not found:
        raise InvalidArgumentError(
            f"none of the {len(calls)} distinct calls has the words {asked.pattern!r}; "
            f"`torchmark summary {asked.file}` shows them"
        )
    return found


def _steps(trace: Trace) -> int:
    """A trace without an order counts as one."""
    return sum(step.repeats for step in trace.steps) or 1


def _follow(
    asked: Asked, kept: _Kept, zygotes: ReplayZygotes, division: Division, *, quiet: bool
) -> None:
    lane = division.lanes[0]
    cores = lane if len(lane) >= asked.wish.threads else division.everything
    replaying: HotReplay | OrderReplay
    if asked.mode is ReplayMode.ORDER:
        order = usual_step(asked.trace).calls
        replaying = OrderReplay(kept.replay.calls, order, asked.wish, zygotes)
    else:
        replaying = HotReplay(kept.replay.calls, asked.wish, zygotes)
    # The display has a thread of its own, which must not run where times are taken.
    with on_cores(division.others), display_for(replaying.total(), quiet=quiet) as display:
        if Metric.TIME in asked.wish.kinds:
            with _stage(display, "measuring what this machine can do"):
                speeds = speeds_of(kept.replay.calls, zygotes, cores)
                kept.replay = replace(kept.replay, speeds=speeds)
        for call, result in replaying.news(cores):
            kept.update(call)
            if result is not None:
                display.show(result)
        if isinstance(replaying, OrderReplay):
            kept.replay = replace(kept.replay, pass_seconds=replaying.pass_seconds)


@contextlib.contextmanager
def _stage(display: Display, text: str) -> Iterator[None]:
    display.show(Stage(text, is_over=False))
    yield
    display.show(Stage(text, is_over=True))
