"""What counting one statement gave: instructions by function, of the statement and of nothing.

The interface and the printed text are those of `torch.utils.benchmark`'s `CallgrindStats`. Beyond
it, stats go to JSON and back, and where the text of callgrind's file was kept they are exported for
KCachegrind, for flame graphs (folded stacks) and for speedscope.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from torchmark.callgrind.parse import parse_text
from torchmark.errors import InvalidArgumentError
from torchmark.flame.counted import rebuild_stacks, source_files
from torchmark.flame.stacks import fold_stacks, render_speedscope
from torchmark.model.task_spec import TaskSpec

if TYPE_CHECKING:
    from torchmark.callgrind.profile import Profile
    from torchmark.model.function_counts import FunctionCounts

_BUILD_PLACES = (
    # PyTorch, wherever it was built.
    (re.compile(r"^.+build/\.\./"), "build/../"),
    (re.compile(r"^.+/build/aten/"), "build/aten/"),
    # CPython's interpreter and its objects.
    (re.compile(r"^.+/Python/"), "Python/"),
    (re.compile(r"^.+/Objects/"), "Objects/"),
    # The library, such as " [libtorch.so]".
    (re.compile(r"\s\[.+\]$"), ""),
)


@dataclass(frozen=True, repr=False)
class CallgrindStats:
    """Instructions of `number_per_run` executions of a statement, by function."""

    task_spec: TaskSpec
    """What was counted."""

    number_per_run: int
    """How often the statement ran while instructions were counted."""

    built_with_debug_symbols: bool
    """Whether torch's own functions come with their source files."""

    baseline_inclusive_stats: FunctionCounts
    """The same loop around `pass`; empty if it was not counted."""

    baseline_exclusive_stats: FunctionCounts
    """The same loop around `pass`; empty if it was not counted."""

    stmt_inclusive_stats: FunctionCounts
    """Every function with what it called."""

    stmt_exclusive_stats: FunctionCounts
    """Every function by itself; the sum is the number of instructions."""

    stmt_callgrind_out: str | None
    """The text of callgrind's file, if it was asked for."""

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Counts by function; inclusive ones find hot spots, exclusive ones compare runs."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """Instructions in all, for `number_per_run` executions."""
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum()

    def without_loop(self) -> FunctionCounts:
        """Exclusive counts of the statement alone: those of the empty loop are taken off."""
        return self.stmt_exclusive_stats - self.baseline_exclusive_stats

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """By function, how much more is counted here than in `other`."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """The same counts without library names and build directories.

        Two builds of torch or Python in different places then cancel in `delta`. The text of
        callgrind's file, which has the full names, is not taken along.
        """
        return replace(
            self,
            baseline_inclusive_stats=_standardized(self.baseline_inclusive_stats),
            baseline_exclusive_stats=_standardized(self.baseline_exclusive_stats),
            stmt_inclusive_stats=_standardized(self.stmt_inclusive_stats),
            stmt_exclusive_stats=_standardized(self.stmt_exclusive_stats),
            stmt_callgrind_out=None,
        )

    def __repr__(self) -> str:
        baseline = self.baseline_exclusive_stats
        threads = self.task_spec.num_threads
        plural = "s" if threads > 1 else ""
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'':>25}All{'':>10}Noisy symbols removed",
            _row("Instructions:", self.counts(), self.counts(denoise=True)),
            _row("Baseline:", baseline.sum(), baseline.denoise().sum()),
            f"{self.number_per_run} runs per measurement, {threads} thread{plural}",
        ]
        if not self.built_with_debug_symbols:
            lines += [
                "Warning: PyTorch was not built with debug symbols.",
                "         Source information may be limited. Rebuild with",
                "         REL_WITH_DEB_INFO=1 for more detailed results.",
            ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The stats as JSON text that `from_json` reads back without loss."""
        from torchmark.model.codec import encode_stats  # noqa: PLC0415 - msgspec on demand

        return encode_stats(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> CallgrindStats:
        """The stats in `text`; whatever does not hold any is a `CallgrindFileError`."""
        from torchmark.model.codec import decode_stats  # noqa: PLC0415 - msgspec on demand

        return decode_stats(text)

    def to_callgrind_out(self) -> str:
        """callgrind's own file, for KCachegrind and callgrind_annotate."""
        if self.stmt_callgrind_out is None:
            raise InvalidArgumentError(
                f"the callgrind file of {self.task_spec.title!r} was not kept; "
                "use collect_callgrind(retain_out_file=True)"
            )
        return self.stmt_callgrind_out

    def to_folded(self) -> str:
        """Folded stacks, a line each, for flame graphs; see `torchmark.flame.counted`."""
        return fold_stacks(rebuild_stacks(self._profile()))

    def to_speedscope(self) -> str:
        """JSON for speedscope, from the stacks of `to_folded`."""
        profile = self._profile()
        return render_speedscope(
            rebuild_stacks(profile), name=self.task_spec.title, files=source_files(profile)
        )

    def _profile(self) -> Profile:
        return parse_text(self.to_callgrind_out(), f"the callgrind file of {self.task_spec.title}")


def _row(name: str, everything: int, denoised: int) -> str:
    return f"    {name:<13} {everything:>12}{'':>15}{denoised:>12}"


def _standardized(stats: FunctionCounts) -> FunctionCounts:
    for pattern, replacement in _BUILD_PLACES:
        stats = stats.transform(partial(pattern.sub, replacement))
    return stats
