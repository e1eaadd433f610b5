"""The result of counting one statement: instructions by function, of the statement and the loop.

Interface and printed text are the same as those of `torch.utils.benchmark.CallgrindStats`. In
addition, stats can be written to JSON and read back. If the text of callgrind's file was kept, they
can be exported for KCachegrind, for flame graphs (folded stacks) and for speedscope.

Functions have the names that callgrind_annotate prints, so filters for torch's names work:
`file:function [object]`, or `???:function [object]` without debug symbols. Code that was inlined
from another file is a separate entry, `header:function`, without the object. Three things differ:

- Functions with the same file and name in several objects have one entry each. callgrind_annotate
  adds them up under the object that it read last.
- A function that has the count of the whole program is kept. torch leaves it out, to remove calls
  that were active when collection started; these have no exclusive cost here.
- The inclusive cost of recursive functions is computed by `torchmark.callgrind.profile`, and is
  never more than the total.
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
    # PyTorch, built in any directory.
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
    """Instructions of `number_per_run` runs of a statement, by function."""

    task_spec: TaskSpec
    number_per_run: int
    """Runs of the statement that were counted."""

    built_with_debug_symbols: bool
    """Whether torch's functions have source files."""

    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    """The same loop around `pass`; empty if it was not counted."""

    stmt_inclusive_stats: FunctionCounts
    """Counts of each function, including its callees."""

    stmt_exclusive_stats: FunctionCounts
    """Counts of each function, without its callees; the sum is the total."""

    stmt_callgrind_out: str | None
    """The text of callgrind's file, if it was requested."""

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Counts by function: inclusive to find hot spots, exclusive to compare runs."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """The total number of instructions of `number_per_run` runs."""
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum()

    def without_loop(self) -> FunctionCounts:
        """Exclusive counts of the statement, without those of the loop around it."""
        return self.stmt_exclusive_stats - self.baseline_exclusive_stats

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """Counts by function, minus those of `other`."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """The same counts, with libraries and build directories removed from function names.

        Use it to compare builds of torch or Python in different directories with `delta`. The
        text of callgrind's file is dropped, because it has the full names.
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
        """JSON text that `from_json` reads without loss."""
        from torchmark.model.codec import encode_stats  # noqa: PLC0415 - it imports this

        return encode_stats(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> CallgrindStats:
        """Read JSON text of `to_json`; a `CallgrindFileError` if it has no stats."""
        from torchmark.model.codec import decode_stats  # noqa: PLC0415 - it imports this

        return decode_stats(text)

    def to_callgrind_out(self) -> str:
        """The text of callgrind's file, for KCachegrind and callgrind_annotate."""
        if self.stmt_callgrind_out is None:
            raise InvalidArgumentError(
                f"the callgrind file of {self.task_spec.title!r} was not kept; "
                "use collect_callgrind(retain_out_file=True)"
            )
        return self.stmt_callgrind_out

    def to_folded(self) -> str:
        """Folded stacks for flame graphs, one per line; see `torchmark.flame.counted`."""
        return fold_stacks(rebuild_stacks(self._profile()))

    def to_speedscope(self) -> str:
        """JSON for speedscope, with the stacks of `to_folded`."""
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
    """The stats of a statement and, if it was counted, of the empty loop."""
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
    """Counts of each function without its callees; the sum is the profile's total."""
    counts = [(share.exclusive, name) for name, _, share in _named_shares(profile)]
    return counts_of(counts, inclusive=False)


def inclusive_counts(profile: Profile) -> FunctionCounts:
    """Counts of each function, and of inlined code, with their callees."""
    counts = [(each.inclusive, _full_name(*each[:3])) for each in profile.functions]
    for name, is_inlined, share in _named_shares(profile):
        if is_inlined:
            # With recursion the sum could exceed the cost of the whole function.
            whole = profile.functions[share.function].inclusive
            counts.append((min(share.exclusive + share.called, whole), name))
    return counts_of(counts, inclusive=True)


def _named_shares(profile: Profile) -> Iterator[tuple[str, bool, SourceShare]]:
    """Each share with its name and whether its code was inlined from another file."""
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
    """Whether torch's functions have source files; True if torch does not occur."""
    files = {
        function.source_file for function in profile.functions if "libtorch" in function.object_file
    }
    return files != {UNKNOWN}
