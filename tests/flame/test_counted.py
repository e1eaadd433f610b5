"""Callgrind's stacks: rebuilt without losing an instruction; per run, from the statement on."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.callgrind.samples import SMALL
from torchmark.callgrind.parse import parse_text
from torchmark.callgrind.profile import Call, Profile, ProfiledFunction, inclusive_costs
from torchmark.flame.counted import average_stacks, rebuild_stacks, source_files
from torchmark.flame.stacks import Stack, build_tree, fold_stacks, render_speedscope

FOLDED = """\
outer;inner 23
outer;inner;fact 14
outer;inner;fact;fact'2 121
outer;inner;is_even 13
outer;inner;is_even;is_odd 13
outer;inner;is_even;is_odd;is_even'2 52
outer;inner;is_even;is_odd;is_even'2;is_odd'2 48
"""


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any call graph, cycles and impossible costs included."""
    exclusive = draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
    functions = st.integers(0, len(exclusive) - 1)
    arcs = draw(st.dictionaries(st.tuples(functions, functions), st.integers(0, 10**6)))
    calls = tuple(Call(caller, callee, 1, cost) for (caller, callee), cost in arcs.items())
    inclusive = inclusive_costs(exclusive, calls)
    return Profile(
        total=sum(exclusive),
        functions=tuple(
            ProfiledFunction("a.so", "a.c", f"f{number}", *costs)
            for number, costs in enumerate(zip(exclusive, inclusive, strict=True))
        ),
        shares=(),
        calls=calls,
    )


def test_recursion_is_folded_into_stacks_that_end() -> None:
    assert fold_stacks(rebuild_stacks(parse_text(SMALL))) == FOLDED


@given(profiles(), st.sampled_from([0, 1e-4, 0.5, 1]))
def test_every_function_keeps_its_cost_to_the_instruction(
    profile: Profile, smallest: float
) -> None:
    costs: Counter[str] = Counter()
    for stack in rebuild_stacks(profile, smallest):
        assert stack.weight > 0
        assert len(set(stack.frames)) == len(stack.frames)
        costs[stack.frames[-1]] += stack.weight
    assert costs == Counter({function.name: function.exclusive for function in profile.functions})


@given(profiles(), st.sampled_from([0, 1e-4]))
def test_the_lines_add_up_to_the_total(profile: Profile, smallest: float) -> None:
    lines = fold_stacks(rebuild_stacks(profile, smallest)).splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == profile.total


@given(profiles(), st.randoms())
def test_the_order_of_the_calls_in_the_file_does_not_matter(
    profile: Profile, random: object
) -> None:
    calls = list(profile.calls)
    random.shuffle(calls)  # type: ignore[attr-defined]
    shuffled = Profile(
        total=profile.total,
        functions=profile.functions,
        shares=(),
        calls=tuple(calls),
    )
    assert rebuild_stacks(shuffled) == rebuild_stacks(profile)


def test_a_cost_is_shared_out_in_proportion_to_the_calls() -> None:
    functions = (("main", 0, 100), ("a", 10, 40), ("b", 0, 60), ("leaf", 90, 90))
    profile = Profile(
        total=100,
        functions=tuple(ProfiledFunction("a.so", "a.c", *entry) for entry in functions),
        shares=(),
        calls=(Call(0, 1, 1, 40), Call(0, 2, 1, 60), Call(1, 3, 1, 30), Call(2, 3, 1, 60)),
    )
    assert fold_stacks(rebuild_stacks(profile)) == "main;a 10\nmain;a;leaf 30\nmain;b;leaf 60\n"


def test_a_nameless_function_is_shown_with_its_object_and_no_name_breaks_the_format() -> None:
    text = "events: Ir\nob=/usr/lib/a.so\nfl=???\nfn=0x12\n0 3\nfn=f(a;b)\n0 4\ntotals: 7\n"
    assert fold_stacks(rebuild_stacks(parse_text(text))) == "0x12 [a.so] 3\nf(a,b) 4\n"


def test_a_profile_without_costs_has_no_lines() -> None:
    assert rebuild_stacks(parse_text("events: Ir\ntotals: 0\n")) == []


@given(profiles())
def test_speedscope_gets_the_same_stacks_as_samples(profile: Profile) -> None:
    document = json.loads(render_speedscope(rebuild_stacks(profile), name="f()"))
    (sampled,) = document["profiles"]
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    lines: Counter[str] = Counter()
    for sample, weight in zip(sampled["samples"], sampled["weights"], strict=True):
        lines[";".join(frames[frame] for frame in sample)] += weight
    assert "".join(f"{stack} {cost}\n" for stack, cost in sorted(lines.items())) == fold_stacks(
        rebuild_stacks(profile)
    )
    assert sampled["endValue"] - sampled["startValue"] == sum(sampled["weights"]) == profile.total


def test_speedscope_finds_what_its_schema_asks_for() -> None:
    profile = parse_text(SMALL)
    text = render_speedscope(rebuild_stacks(profile), name="f()", files=source_files(profile))
    document = json.loads(text)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert {"name": "fact", "file": "/tmp/t.c"} in document["shared"]["frames"]
    (sampled,) = document["profiles"]
    assert (sampled["type"], sampled["unit"], sampled["name"]) == ("sampled", "none", "f()")


COUNTED = """\
events: Ir
ob=/usr/lib/libpython.so
fl=???
fn=builtin_exec
cfn=eval
calls=1 0
0 1000
fn=eval
0 300
cob=/usr/lib/libtorch.so
cfn=add
calls=100 0
0 500
cob=???
cfn=0x4936718
calls=100 0
0 200
ob=/usr/lib/libtorch.so
fn=add
0 450
cfn=0x7f01
calls=100 0
0 50
fn=0x7f01
0 50
ob=???
fn=0x4936718
0 2
cob=/usr/lib/libc.so
cfn=free
calls=100 0
0 198
ob=/usr/lib/libc.so
fn=free
0 198
totals: 1000
"""
"""What a count looks like: `exec` above all, the evaluation of the statement, and what it calls,
some of it through a jump between libraries."""


def test_what_starts_the_statement_is_not_in_the_picture() -> None:
    stacks = average_stacks(parse_text(COUNTED), 1)
    assert {stack.frames[0] for stack in stacks} == {"eval"}


def test_nameless_code_is_called_after_its_library_and_jumps_are_left_out() -> None:
    assert average_stacks(parse_text(COUNTED), 1) == [
        Stack(("eval",), 300),
        Stack(("eval", "[code without a name]"), 2),
        Stack(("eval", "add"), 450),
        Stack(("eval", "add", "[libtorch.so]"), 50),
        Stack(("eval", "free"), 198),
    ]


def test_instructions_are_per_run_and_add_up() -> None:
    stacks = average_stacks(parse_text(COUNTED), 100)
    assert {stack.frames[-1]: stack.weight for stack in stacks} == {
        "eval": 3, "add": 4, "[libtorch.so]": 1, "free": 2,
    }  # fmt: skip
    assert sum(stack.weight for stack in stacks) == 10


@given(profiles(), st.integers(1, 1000))
def test_every_frame_is_within_an_instruction_of_the_exact_figure(
    profile: Profile, number: int
) -> None:
    exact, rounded = (
        build_tree(average_stacks(profile, 1)),
        build_tree(average_stacks(profile, number)),
    )
    assert exact.total.branch == profile.total
    assert rounded.total.branch == profile.total // number
    waiting = [(exact, rounded)]
    while waiting:
        whole, part = waiting.pop()
        assert abs(part.total.branch - whole.total.branch / number) < 1
        children = {child.name: child for child in part.children}
        for child in whole.children:
            if child.name in children:
                waiting.append((child, children[child.name]))
            else:
                assert child.total.branch < number


def test_a_profile_without_costs_has_no_stacks() -> None:
    assert average_stacks(parse_text("events: Ir\ntotals: 0\n"), 100) == []
