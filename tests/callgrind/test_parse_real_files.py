"""The parser on files that valgrind wrote, against callgrind_annotate and against itself."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.callgrind.programs import annotate, compile_program, count, without_object
from torchmark.callgrind.parse import parse_file
from torchmark.model.callgrind_stats import exclusive_counts, inclusive_counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.callgrind.profile import Profile
    from torchmark.model.function_counts import FunctionCounts

    Run = Callable[..., Path]

FORMATS = {
    "plain": (),
    "addresses": ("--dump-instr=yes",),
    "addresses alone": ("--dump-instr=yes", "--dump-line=no"),
    "nothing compressed": ("--compress-strings=no", "--compress-pos=no"),
    "jumps": ("--dump-instr=yes", "--collect-jumps=yes"),
    "more events": ("--cache-sim=yes", "--branch-sim=yes"),
    "part of a run": ("--toggle-collect=work",),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the program under callgrind, once for each set of options."""
    directory = tmp_path_factory.mktemp("callgrind")
    program = compile_program(directory)
    files: dict[tuple[str, ...], Path] = {}

    def run_with(*options: str) -> Path:
        if options not in files:
            out = directory / f"callgrind.out.{len(files)}"
            files[options] = count([program], out, *options)
        return files[options]

    return run_with


def by_bare_name(counts: FunctionCounts) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for number, name in counts:
        sums[without_object(name)] += number
    return dict(sums)


def named(profile: Profile, name: str) -> int:
    return next(i for i, function in enumerate(profile.functions) if function.name == name)


def own_costs(profile: Profile) -> Counter[tuple[str, str]]:
    """Of the functions of the program itself; the loader's differ with the environment."""
    own = ("main.c", "odd.c", "library.c", "inlined.h")
    return Counter(
        {
            (share.source_file, profile.functions[share.function].name): share.exclusive
            for share in profile.shares
            if share.source_file.endswith(own)
        }
    )


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_exclusive_costs_are_those_of_callgrind_annotate(
    run: Run, options: tuple[str, ...]
) -> None:
    out = run(*options)
    profile = parse_file(out)
    assert by_bare_name(exclusive_counts(profile)) == annotate(out, inclusive=False)


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_inclusive_costs_are_those_of_callgrind_annotate_but_for_recursion(
    run: Run, options: tuple[str, ...]
) -> None:
    out = run(*options)
    ours = by_bare_name(inclusive_counts(parse_file(out)))
    theirs = annotate(out, inclusive=True)
    assert ours.keys() == theirs.keys()
    recursive = {name for name in ours if name.endswith("'2")}
    assert {name: ours[name] for name in ours.keys() - recursive} == {
        name: theirs[name] for name in theirs.keys() - recursive
    }
    assert all(ours[name] <= theirs[name] for name in recursive)


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_nothing_costs_more_than_the_whole_program(run: Run, options: tuple[str, ...]) -> None:
    profile = parse_file(run(*options))
    assert sum(function.exclusive for function in profile.functions) == profile.total
    assert sum(share.exclusive for share in profile.shares) == profile.total
    assert max(function.inclusive for function in profile.functions) <= profile.total


@pytest.mark.parametrize("name", ["addresses", "jumps", "more events"])
def test_compressed_positions_give_the_costs_that_uncompressed_ones_give(
    run: Run, name: str
) -> None:
    plain = own_costs(parse_file(run(*FORMATS["nothing compressed"])))
    assert plain
    assert own_costs(parse_file(run(*FORMATS[name]))) == plain


def test_calls_are_counted_from_each_caller(run: Run) -> None:
    profile = parse_file(run())
    counts = {
        (profile.functions[call.caller].name, profile.functions[call.callee].name): call.count
        for call in profile.calls
    }
    assert counts["main", "work"] == 1
    assert counts["again", "work"] == 1
    assert counts["in_a_thread", "work"] == 1
    assert counts["work", "from_library"] == 121
    assert counts["from_library", "helper"] == 242


def test_recursion_costs_what_its_outermost_calls_cost(run: Run) -> None:
    profile = parse_file(run())
    inner = named(profile, "fact'2")
    from_outside = sum(
        call.inclusive for call in profile.calls if call.callee == inner != call.caller
    )
    assert profile.functions[inner].inclusive == from_outside
    assert profile.functions[inner].inclusive == profile.functions[inner].exclusive


def test_members_of_a_cycle_cost_at_most_what_the_cycle_costs(run: Run) -> None:
    profile = parse_file(run())
    even, odd = (profile.functions[named(profile, name)] for name in ("is_even'2", "is_odd'2"))
    assert max(even.inclusive, odd.inclusive) <= even.exclusive + odd.exclusive


def test_a_function_in_a_library_knows_its_object_and_file(run: Run) -> None:
    profile = parse_file(run())
    helper = profile.functions[named(profile, "helper")]
    assert helper.object_file.endswith("/liblibrary.so")
    assert helper.source_file.endswith("/library.c")


def test_inlined_code_is_a_share_of_the_function_it_went_into(run: Run) -> None:
    profile = parse_file(run())
    work = named(profile, "work")
    shares = {
        share.source_file.rpartition("/")[2]: share.exclusive
        for share in profile.shares
        if share.function == work
    }
    assert shares.keys() == {"main.c", "inlined.h"}
    assert sum(shares.values()) == profile.functions[work].exclusive


def test_a_file_of_several_parts_is_the_sum_of_its_parts(run: Run) -> None:
    dump = "--dump-before=again"
    combined = parse_file(run(dump, "--combine-dumps=yes"))
    last = run(dump)
    parts = [parse_file(path) for path in (last, last.with_name(f"{last.name}.1"))]
    assert combined.total == pytest.approx(sum(part.total for part in parts), rel=0.01)
    assert own_costs(combined) == sum((own_costs(part) for part in parts), Counter())


def test_calls_under_way_when_a_part_begins_are_no_exclusive_cost(run: Run) -> None:
    part = parse_file(run("--dump-before=again"))
    under_way = [call for call in part.calls if call.count == 0]
    assert under_way
    assert sum(function.exclusive for function in part.functions) == part.total


def test_every_thread_is_counted_and_can_be_counted_apart(run: Run) -> None:
    apart = run("--separate-threads=yes")
    threads = [parse_file(apart.with_name(f"{apart.name}-0{number}")) for number in (1, 2)]
    assert all(thread.total for thread in threads)
    assert own_costs(parse_file(run())) == sum(map(own_costs, threads), Counter())


def test_denoise_finds_the_dictionary_lookups_of_the_python_that_runs(tmp_path: Path) -> None:
    out = count([sys.executable, "-S", "-c", "pass"], tmp_path / "callgrind.out")
    counts = exclusive_counts(parse_file(out))
    removed = counts - counts.denoise()
    lookups = removed.filter(lambda name: "look" in name.lower())
    assert lookups.sum() > 0.01 * counts.sum()
