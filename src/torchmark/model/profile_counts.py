"""A profile as torch shows it: counts under the names that callgrind_annotate prints.

A name is `file:function [object]`, `???:function [object]` without debug symbols. Code that was
inlined from another file has an entry of its own, `header:function`, without the object, as there.
Filters and `as_standardized` written for torch's names work on these. Three things differ:

- Functions of one file and name in several objects keep an entry each; callgrind_annotate adds
  them up under the object that it read last.
- A function whose count is the whole program's is kept; torch leaves it out, to be rid of calls
  that were under way when collection began. Such calls are no exclusive cost here to begin with.
- The inclusive cost of recursive functions follows `torchmark.callgrind.call_graph`, and never
  exceeds the total.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from torchmark.callgrind.profile import UNKNOWN
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.function_counts import FunctionCounts, counts_of

if TYPE_CHECKING:
    from torchmark.callgrind.profile import Profile, SourceShare
    from torchmark.model.task_spec import TaskSpec


def stats_from_profiles(
    task_spec: TaskSpec,
    number_per_run: int,
    stmt: Profile,
    baseline: Profile | None,
    stmt_text: str | None,
) -> CallgrindStats:
    """The stats of a statement and, where it was counted, of the empty loop."""
    empty = {inclusive: FunctionCounts((), inclusive) for inclusive in (False, True)}
    return CallgrindStats(
        task_spec=task_spec,
        number_per_run=number_per_run,
        built_with_debug_symbols=has_torch_sources(stmt),
        baseline_inclusive_stats=inclusive_counts(baseline) if baseline else empty[True],
        baseline_exclusive_stats=exclusive_counts(baseline) if baseline else empty[False],
        stmt_inclusive_stats=inclusive_counts(stmt),
        stmt_exclusive_stats=exclusive_counts(stmt),
        stmt_callgrind_out=stmt_text,
    )


def exclusive_counts(profile: Profile) -> FunctionCounts:
    """Every function by itself; the sum is the profile's total."""
    counts: dict[str, int] = defaultdict(int)
    own = _own_places(profile)
    for share in profile.shares:
        counts[_name(profile, own, share)] += share.exclusive
    return counts_of(counts, inclusive=False)


def inclusive_counts(profile: Profile) -> FunctionCounts:
    """Every function with what it called, and inlined code with what was called from it."""
    counts: dict[str, int] = defaultdict(int)
    own = _own_places(profile)
    for function in profile.functions:
        counts[_full_name(*function[:3])] += function.inclusive
    for share in profile.shares:
        function = profile.functions[share.function]
        if (function.object_file, share.source_file, function.name) not in own:
            # A part costs no more than the whole; recursion would make it look so.
            counts[f"{share.source_file}:{function.name}"] += min(
                share.exclusive + share.called, function.inclusive
            )
    return counts_of(counts, inclusive=True)


def has_torch_sources(profile: Profile) -> bool:
    """Whether torch's functions come with source files; true if torch does not occur at all."""
    files = {
        function.source_file for function in profile.functions if "libtorch" in function.object_file
    }
    return not files or files != {UNKNOWN}


def _own_places(profile: Profile) -> set[tuple[str, str, str]]:
    return {function[:3] for function in profile.functions}


def _name(profile: Profile, own: set[tuple[str, str, str]], share: SourceShare) -> str:
    function = profile.functions[share.function]
    place = (function.object_file, share.source_file, function.name)
    return _full_name(*place) if place in own else f"{share.source_file}:{function.name}"


def _full_name(object_file: str, source_file: str, name: str) -> str:
    return f"{source_file}:{name} [{object_file}]" if object_file else f"{source_file}:{name}"
