"""What counting one statement gave: instructions by function, of the statement and of nothing.

The interface and the printed text are those of `torch.utils.benchmark`'s `CallgrindStats`. Beyond
it, stats go to JSON and back, and where the text of callgrind's file was kept they are exported for
KCachegrind, for flame graphs (folded stacks) and for speedscope.

Functions have the names that callgrind_annotate prints, so filters written for torch's names work:
`file:function [object]`, `???:function [object]` without debug symbols. Code that was inlined from
another file has an entry of its own, `header:function`, without the object. Three things differ:

- Functions of one file and name in several objects keep an entry each; callgrind_annotate adds
  them up under the object that it read last.
- A function whose count is the whole program's is kept; torch leaves it out, to be rid of calls
  that were under way when collection began, which are no exclusive cost here.
- The inclusive cost of recursive functions follows `torchmark.callgrind.profile`, and never
  exceeds the total.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from torchmark.callgrind.parse import parse_text
from torchmark.callgrind.profile import UNKNOWN, Profile, SourceShare
from torchmark.errors import InvalidArgumentError
from torchmark.flame.counted import rebuild_stacks, source_files
from torchmark.flame.stacks import fold_stacks, render_speedscope
from torchmark.model.case import TaskSpec
from torchmark.model.function_counts import FunctionCounts, counts_of

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
    number_per_run: int
    """How often the statement ran while instructions were counted."""

    built_with_debug_symbols: bool
    """Whether torch's own functions come with their source files."""

    baseline_inclusive_stats: FunctionCounts
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
        from torchmark.model.codec import encode_stats  # noqa: PLC0415 - it imports this

        return encode_stats(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> CallgrindStats:
        """The stats in `text`; whatever does not hold any is a `CallgrindFileError`."""
        from torchmark.model.codec import decode_stats  # noqa: PLC0415 - it imports this

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


def stats_from_profiles(
    task_spec: TaskSpec,
    number_per_run: int,
    stmt: Profile,
    baseline: Profile | None,
    stmt_text: str | None,
) -> CallgrindStats:
    """The stats of a statement and, where it was counted, of the empty loop."""
    loop = baseline or Profile(total=0, functions=(), shares=(), calls=())
    return CallgrindStats(
        task_spec=task_spec,
        number_per_run=number_per_run,
        built_with_debug_symbols=_has_torch_sources(stmt),
        baseline_inclusive_stats=inclusive_counts(loop),
        baseline_exclusive_stats=exclusive_counts(loop),
        stmt_inclusive_stats=inclusive_counts(stmt),
        stmt_exclusive_stats=exclusive_counts(stmt),
        stmt_callgrind_out=stmt_text,
    )


def exclusive_counts(profile: Profile) -> FunctionCounts:
    """Every function by itself; the sum is the profile's total."""
    counts = [(share.exclusive, name) for name, _, share in _named_shares(profile)]
    return counts_of(counts, inclusive=False)


def inclusive_counts(profile: Profile) -> FunctionCounts:
    """Every function with what it called, and inlined code with what was called from it."""
    counts = [(each.inclusive, _full_name(*each[:3])) for each in profile.functions]
    for name, is_inlined, share in _named_shares(profile):
        if is_inlined:
            # A part costs no more than the whole; recursion would make it look so.
            whole = profile.functions[share.function].inclusive
            counts.append((min(share.exclusive + share.called, whole), name))
    return counts_of(counts, inclusive=True)


def _named_shares(profile: Profile) -> Iterator[tuple[str, bool, SourceShare]]:
    """The name of every share, and whether its code was inlined from another file."""
    own = {function[:3] for function in profile.functions}
    for share in profile.shares:
        function = profile.functions[share.function]
        place = (function.object_file, share.source_file, function.name)
        is_inlined = place not in own
        name = f"{share.source_file}:{function.name}" if is_inlined else _full_name(*place)
        yield name, is_inlined, share


def _full_name(object_file: str, source_file: str, name: str) -> str:
    return f"{source_file}:{name} [{object_file}]" if object_file else f"{source_file}:{name}"


def _has_torch_sources(profile: Profile) -> bool:
    """Whether torch's functions come with source files; true if torch does not occur at all."""
    files = {
        function.source_file for function in profile.functions if "libtorch" in function.object_file
    }
    return files != {UNKNOWN}
