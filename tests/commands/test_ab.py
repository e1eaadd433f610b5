"""A comparison of environments as a run in the store: made-up environments and results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import torchmark
from tests import ab_records, records
from torchmark.commands import ab as module
from torchmark.commands.ab import name_commands
from torchmark.commands.planning import plan_statements
from torchmark.engine.paired.counting import sentries
from torchmark.errors import InvalidArgumentError, RunInterruptedError, ZygoteError
from torchmark.model.result import Metric, PairedTiming, Result, Status
from torchmark.model.run import Began, Environment, Run, RunKind, RunState, Stage
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from torchmark.model.result import PlannedResult
    from torchmark.model.run import Progress
    from torchmark.store import Store

FACTS = {**ab_records.FACTS_A, "executable": "/bin/python", "torch_file": "/torch/__init__.py"}


class FakeSide:
    """An environment that is only described."""

    def __init__(self, name: str, command: str, facts: dict[str, Any]) -> None:
        self.name = name
        self.environment = SimpleNamespace(command=command)
        self._facts = facts
        self.is_closed = False

    def describe(self) -> Environment:
        return Environment(name=self.name, command=self.environment.command, facts=self._facts)

    def close(self) -> None:
        self.is_closed = True


class World:
    """Environments by their commands, and what comes of planned results."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        self.sides: list[FakeSide] = []
        self.plans: list[list[PlannedResult]] = []
        """What each comparison was given."""
        self.judged_together: list[int] = []
        """How many cases each comparison was told to have their times before."""
        self.fails: set[str] = set()
        """Statements that fail."""
        self.ends_before: str | None = None
        self.ends_with: BaseException = KeyboardInterrupt()
        """Raised in place of this statement's result."""
        self.partial: list[Result] = []
        """What there is of cases that are cut short."""
        self.sentries: list[Result] = []
        self.has_control = False
        """Whether a comparison ends with its first case compared with itself."""

    def find(self, name: str, command: str, *_: object) -> FakeSide:
        side = FakeSide(name, command, self.facts.get(command, FACTS))
        self.sides.append(side)
        return side

    def compare(
        self, plan: Sequence[PlannedResult], *_: object, timed_before: int, **__: object
    ) -> SimpleNamespace:
        self.plans.append(list(plan))
        keys = {each.key for each in plan}
        self.judged_together.append(timed_before)
        return SimpleNamespace(
            sentries=self.sentries,
            results=lambda: self._results(plan),
            partial_results=lambda: (each for each in self.partial if each.key in keys),
        )

    def _results(self, plan: Sequence[PlannedResult]) -> Generator[Progress, None, None]:
        for planned in plan:
            if planned.case.stmt == self.ends_before:
                raise self.ends_with
            yield Began(case=planned.case, metric=planned.metric)
            if planned.case.stmt in self.fails:
                yield planned.finish(Status.FAILED, reason="in B: no")
                continue
            timing = PairedTiming(a_seconds=1e-6, replicates=())
            is_time = planned.metric is Metric.TIME
            counts = ab_records.counted(planned.case, {"f": 10}, {"f": 10}).payload
            yield planned.finish(payload=timing if is_time else counts)
        if self.has_control:
            yield ab_records.controlled(plan[0].case, environments=plan[0].environments)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(
        module,
        "open_environments",
        lambda commands, *rest: [made.find(*each, *rest) for each in commands.items()],
    )
    monkeypatch.setattr(module, "Comparison", made.compare)
    monkeypatch.setattr(module, "remarks_on", lambda *_, **__: [])
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.db") as opened:
        yield opened


def compare(store: Store, *statements: str, **options: Any) -> Run:
    given = {"A": "a", "B": "b", "metrics": [Metric.TIME], **options}
    return torchmark.ab(statements=statements, store=store, **given)


def key_of(result: Result | PlannedResult) -> tuple[str, str]:
    return result.case.stmt, result.environments[1]


def test_ctrl_c_while_a_result_is_kept_loses_nothing_of_the_cases_under_way(
    world: World, store: Store
) -> None:
    """It comes where results are told, not where they are measured."""

    def interrupt(news: object) -> None:
        if isinstance(news, Began):
            (planned,) = world.plans[0]
            timing = PairedTiming(a_seconds=1e-6, replicates=(((0.0, 0.0), (0.0, 0.0)),))
            world.partial.append(planned.finish(Status.PARTIAL, payload=timing))
            raise KeyboardInterrupt

    with pytest.raises(RunInterruptedError) as raised:
        compare(store, "1", progress=interrupt)
    cut_short = store.run(raised.value.run_id)
    assert [each.status for each in cut_short.results] == [Status.PARTIAL]
    assert [each.key for each in cut_short.missing()] == [each.key for each in cut_short.plan]
    whole = torchmark.ab(resume=cut_short.id, store=store)
    assert [each.status for each in whole.results] == [Status.DONE]
    store.add(whole.id, world.partial[0])
    assert store.run(whole.id).results == whole.results, "what is done stays"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 4.0}, "comparing 2 times (up to about 33 s)"),
        ({"detect": 0.01}, "comparing 2 times (a pilot will estimate how long they take)"),
        (
            {"metrics": [Metric.INSTRUCTIONS, Metric.TIME]},
            "comparing 2 instruction counts and 2 times (up to about 45 s)",
        ),
        ({"metrics": [Metric.INSTRUCTIONS]}, "comparing 2 instruction counts"),
    ],
)
@pytest.mark.usefixtures("world")
def test_how_long_it_may_take_is_said_before_the_run_begins(
    store: Store, options: dict[str, Any], said: str
) -> None:
    heard: list[object] = []
    compare(store, "1", "2", progress=heard.append, **options)
    before = [each.text for each in heard[: [type(each) for each in heard].index(Run)]
              if isinstance(each, Stage)]  # fmt: skip
    assert f"{said}; results go to {store.where}" in before


def test_an_error_of_an_environment_keeps_what_there_is_of_its_cases(
    world: World, store: Store
) -> None:
    world.ends_before, world.ends_with = "2", ZygoteError("it is gone")
    timing = PairedTiming(a_seconds=1e-6, replicates=(((0.0, 0.0), (0.0, 0.0)),))

    def hear(news: object) -> None:
        if isinstance(news, Began):
            world.partial = [world.plans[0][1].finish(Status.PARTIAL, payload=timing)]

    with pytest.raises((ZygoteError, RunInterruptedError)):
        compare(store, "1", "2", progress=hear)
    assert [each.status for each in store.run("latest").results] == [Status.DONE, Status.PARTIAL]


def test_every_environment_is_compared_with_the_first_in_one_run(
    world: World, store: Store
) -> None:
    run = compare(store, "1", "2", environments={"C": "c"}, tags=["mine"])
    assert (run.kind, run.state, run.tags) == (RunKind.AB, RunState.FINISHED, ("mine",))
    assert [(each.name, each.command) for each in run.environments] == [
        ("A", "a"), ("B", "b"), ("C", "c"),
    ]  # fmt: skip
    assert [each.environments for each in run.plan] == [("A", "B")] * 2 + [("A", "C")] * 2
    assert [key_of(each) for each in run.results] == [
        ("1", "B"),
        ("2", "B"),
        ("1", "C"),
        ("2", "C"),
    ]
    assert run == store.run(run.id)
    assert all(side.is_closed for side in world.sides)


def test_a_result_is_in_the_store_before_anybody_hears_of_it(world: World, store: Store) -> None:
    heard = []

    def hear(news: object) -> None:
        if isinstance(news, Result):
            heard.append(news)
            (summary,) = store.runs()
            assert summary.done == len(heard)

    compare(store, "1", "2", progress=hear)
    assert len(heard) == 2
    assert world.judged_together == [0]


def test_what_cuts_it_short_leaves_what_there_is_and_the_rest_is_measured_later(
    world: World, store: Store
) -> None:
    world.ends_before = "3"
    world.fails = {"2"}
    with pytest.raises(RunInterruptedError) as caught:
        compare(store, "1", "2", "3", environments={"C": "c"})
    before = store.run(caught.value.run_id)
    assert before.state is RunState.INTERRUPTED
    assert [key_of(each) for each in before.results] == [("1", "B"), ("2", "B")]

    world.ends_before, world.fails = None, set()
    world.plans.clear()
    run = torchmark.ab(resume="latest", store=store)
    assert [[each.case.stmt for each in plan] for plan in world.plans] == [
        ["2", "3"],
        ["1", "2", "3"],
    ], "a failed case is tried again, a finished one is not"
    assert world.judged_together[-2:] == [1, 0]
    assert run.id == before.id
    assert run.state is RunState.FINISHED
    assert sorted(map(key_of, run.results)) == sorted(map(key_of, run.plan)), "each once"
    assert run.results[0] == before.results[0]


def test_a_control_is_kept_in_its_pair_and_is_none_of_the_results_that_were_planned(
    world: World, store: Store
) -> None:
    world.has_control = True
    heard: list[Result] = []

    def hear(news: object) -> None:
        heard.extend([news] if isinstance(news, Result) else [])

    run = compare(store, "1", "2", environments={"C": "c"}, progress=hear)
    assert run.results == tuple(heard), "in the store before anybody hears of it"
    controls = [each for each in run.results if each.metric is Metric.CONTROL]
    assert [each.environments for each in controls] == [("A", "B"), ("A", "C")]
    assert run.missing() == []
    (summary,) = store.runs()
    assert (summary.done, summary.planned) == (4, 4)


def test_a_control_is_not_judged_with_the_cases_when_a_run_goes_on(
    world: World, store: Store
) -> None:
    world.has_control, world.ends_before = True, "3"
    with pytest.raises(RunInterruptedError):
        compare(store, "1", "2", "3")
    world.ends_before = None
    before = store.run("latest")
    store.add(before.id, ab_records.controlled(before.plan[0].case))
    torchmark.ab(resume="latest", store=store)
    assert world.judged_together == [0, 2]


def test_an_environment_that_breaks_meanwhile_names_the_run(world: World, store: Store) -> None:
    world.ends_before, world.ends_with = "2", ZygoteError("gone")
    with pytest.raises(ZygoteError, match="gone") as caught:
        compare(store, "1", "2")
    (summary,) = store.runs()
    assert caught.value.run_id == summary.id
    assert (summary.state, summary.done) == (RunState.INTERRUPTED, 1)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"torch": {"version": "2.14.0"}}, "started with torch 2.12.0 in B, but this is 2.14.0"),
        ({"torch_file": "/other/torch"}, "but this is /other/torch; resume it in the directory"),
    ],
)
def test_a_run_goes_on_only_where_it_began(
    world: World, store: Store, facts: dict[str, Any], said: str
) -> None:
    run = compare(store, "1")
    world.facts["b"] = {**FACTS, **facts}
    with pytest.raises(InvalidArgumentError, match=said):
        torchmark.ab(resume=run.id, store=store)


def test_a_run_of_another_kind_is_resumed_by_its_own_command(world: World, store: Store) -> None:
    assert not world.sides
    other = records.run_of(records.case())
    store.create(other)
    with pytest.raises(InvalidArgumentError, match="torchmark run --resume"):
        torchmark.ab(resume=other.id, store=store)


def test_what_sentries_find_is_a_note_of_the_run(world: World, store: Store) -> None:
    case = sentries()[0].planned.case
    world.sentries = [ab_records.counted(case, {"f": 1000}, {"f": 1100})]
    run = compare(store, "1", "2")
    (note,) = run.notes
    assert note.startswith("plain Python takes 10.0 % more instructions in B")


def test_where_nothing_can_be_counted_times_are_taken_and_the_run_says_so(
    world: World, store: Store
) -> None:
    world.facts["a"] = {**FACTS, "counting": "valgrind is not installed"}
    run = compare(store, "1", metrics=None)
    assert [each.metric for each in run.plan] == [Metric.TIME]
    assert run.notes == ("only times are measured: valgrind is not installed",)
    both = compare(store, "1", A="elsewhere", metrics=None)
    assert [each.metric for each in both.plan] == [Metric.INSTRUCTIONS, Metric.TIME]


def test_two_statements_need_one_environment(world: World, store: Store) -> None:
    run = torchmark.ab(a_stmt="1", b_stmt="2", metrics=[Metric.TIME], store=store, setup="x = 1")
    (planned,) = run.plan
    assert planned.other is not None
    assert (planned.case.stmt, planned.other.stmt) == ("1", "2")
    assert planned.case.setup == planned.other.setup == "x = 1"
    assert [each.command for each in run.environments] == ["", ""]
    assert [side.name for side in world.sides] == ["A", "B"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say what to compare"),
        ({"statements": ["1"]}, "say what to compare"),
        ({"environments": {"one": "true"}}, "different names, not one"),
        ({"A": "true", "environments": {"B": "false"}}, "different names, not A, B, B"),
        ({"a_stmt": "1"}, "for both A and B"),
        ({"A": "true", "b_stmt": "1"}, "for both A and B"),
        ({"A": "true", "statements": ["1"], "suites": ["standard"]}, "not both"),
    ],
)
def test_what_makes_no_comparison_is_refused_before_anything_starts(
    world: World, store: Store, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        torchmark.ab(store=store, **options)
    assert not world.sides
    assert store.runs() == []


def test_one_environment_left_out_is_the_one_torchmark_runs_in() -> None:
    assert name_commands(None, "b", {}) == {"A": "", "B": "b"}
    assert name_commands("a", None, {}) == {"A": "a", "B": ""}
    assert name_commands("a", None, {}, one_is_enough=True) == {"A": "a", "B": "a"}
    assert name_commands(None, None, {"x": "1", "y": "2"}) == {"x": "1", "y": "2"}


def test_a_statement_is_compared_once_and_with_one_other() -> None:
    metrics = (Metric.TIME, Metric.INSTRUCTIONS)
    plan = plan_statements(("A", "B"), [("1", None), ("2", None), ("1", None)], "pass", metrics)
    assert [(each.case.stmt, each.metric) for each in plan] == [
        (stmt, metric) for stmt in ("1", "2") for metric in metrics
    ]
    with pytest.raises(InvalidArgumentError, match="use two runs"):
        plan_statements(("A", "B"), [("1", None), ("1", "2")], "pass", metrics)
