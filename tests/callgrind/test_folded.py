"""Stacks rebuilt from a call graph lose no instruction, whatever the graph."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.callgrind.samples import SMALL
from torchmark.callgrind.call_graph import inclusive_costs
from torchmark.callgrind.folded import folded, stacks
from torchmark.callgrind.parse import parse_text
from torchmark.callgrind.profile import Call, Profile, ProfiledFunction
from torchmark.callgrind.speedscope import speedscope

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
        lines=(),
    )


def test_recursion_is_folded_into_stacks_that_end() -> None:
    assert folded(parse_text(SMALL)) == FOLDED


@given(profiles(), st.sampled_from([0, 1e-4, 0.5, 1]))
def test_every_function_keeps_its_cost_to_the_instruction(
    profile: Profile, smallest: float
) -> None:
    costs: Counter[int] = Counter()
    for stack in stacks(profile, smallest):
        assert stack.cost > 0
        assert len(set(stack.frames)) == len(stack.frames)
        costs[stack.frames[-1]] += stack.cost
    assert costs == Counter({i: function.exclusive for i, function in enumerate(profile.functions)})


@given(profiles(), st.sampled_from([0, 1e-4]))
def test_the_lines_add_up_to_the_total(profile: Profile, smallest: float) -> None:
    lines = folded(profile, smallest).splitlines()
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
        lines=(),
    )
    assert folded(shuffled) == folded(profile)


def test_a_cost_is_shared_out_in_proportion_to_the_calls() -> None:
    functions = (("main", 0, 100), ("a", 10, 40), ("b", 0, 60), ("leaf", 90, 90))
    profile = Profile(
        total=100,
        functions=tuple(ProfiledFunction("a.so", "a.c", *entry) for entry in functions),
        shares=(),
        calls=(Call(0, 1, 1, 40), Call(0, 2, 1, 60), Call(1, 3, 1, 30), Call(2, 3, 1, 60)),
        lines=(),
    )
    assert folded(profile) == "main;a 10\nmain;a;leaf 30\nmain;b;leaf 60\n"


def test_a_nameless_function_is_shown_with_its_object_and_no_name_breaks_the_format() -> None:
    text = "events: Ir\nob=/usr/lib/a.so\nfl=???\nfn=0x12\n0 3\nfn=f(a;b)\n0 4\ntotals: 7\n"
    assert folded(parse_text(text)) == "0x12 [a.so] 3\nf(a,b) 4\n"


def test_a_profile_without_costs_has_no_lines() -> None:
    assert folded(parse_text("events: Ir\ntotals: 0\n")) == ""


@given(profiles())
def test_speedscope_gets_the_same_stacks_as_samples(profile: Profile) -> None:
    document = json.loads(speedscope(profile, "f()"))
    (sampled,) = document["profiles"]
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    lines: Counter[str] = Counter()
    for sample, weight in zip(sampled["samples"], sampled["weights"], strict=True):
        lines[";".join(frames[frame] for frame in sample)] += weight
    assert "".join(f"{stack} {cost}\n" for stack, cost in sorted(lines.items())) == folded(profile)
    assert sampled["endValue"] - sampled["startValue"] == sum(sampled["weights"]) == profile.total


def test_speedscope_finds_what_its_schema_asks_for() -> None:
    document = json.loads(speedscope(parse_text(SMALL), "f()"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["shared"]["frames"][0] == {"name": "fact", "file": "/tmp/t.c"}
    (sampled,) = document["profiles"]
    assert (sampled["type"], sampled["unit"], sampled["name"]) == ("sampled", "none", "f()")
