"""The view of a report on the cost of overrides: a comparison with flame graphs."""

from __future__ import annotations

from tests import ab_records, records
from tests.ab_records import run_of, timed
from torchmark.model.result import Metric, PairedProfile, Status
from torchmark.model.run import Environment, RunKind
from torchmark.report import render, view_of
from torchmark.report.views.overrides import name_picture, view_ladders

PAIR = ("base", "branch")
PLAIN = records.case("overrides", "torch.add", "Tensor", stmt="torch.add(x, y)")
SUB = records.case("overrides", "torch.add", "SubTensor", stmt="torch.add(x, y)")
SIDES = tuple(Environment(name=name, facts=ab_records.FACTS_A) for name in PAIR)
TIMES = (timed(PLAIN, 1.0, environments=PAIR), timed(SUB, 1.08, environments=PAIR))
PROFILE = ab_records.result(
    SUB,
    Metric.PROFILE,
    environments=PAIR,
    payload=PairedProfile(
        a="loop;add 2000\n", b="loop;add 2000\nloop;handle_torch_function 160\n", samples=(390, 388)
    ),
)
RUN = run_of(*TIMES, PROFILE, kind=RunKind.OVERRIDES, environments=SIDES)


def test_flame_graphs_of_a_case_are_the_difference_and_the_two_it_is_of() -> None:
    view = view_of(RUN)
    (section,) = [each for each in view.sections if each.pictures]
    assert "overrides / torch.add / SubTensor" in section.title
    assert [picture.name for picture in section.pictures] == [
        f"{which}-torch.add-SubTensor" for which in ("difference", *PAIR)
    ]
    difference, base, branch = (picture.svg for picture in section.pictures)
    assert "branch compared with base" in difference
    assert "handle_torch_function" in difference
    assert "390 samples by py-spy; a run takes 2.000 us" in base
    assert "388 samples by py-spy; a run takes 2.160 us" in branch


def test_the_page_has_the_pictures_in_it() -> None:
    page = render(RUN, "html")
    assert page.count("<svg") >= 3
    assert "__torch_function__" in page
    assert "handle_torch_function" in page


def test_profiles_are_no_rows_of_the_comparison() -> None:
    view = view_of(RUN)
    assert len(view.data.rows) == 2
    assert view.summary.startswith("branch is slower in 1 of 2 cases")
    assert "0 skipped, 0 failed" in view.summary


def test_a_control_is_told_and_is_none_of_the_measurements() -> None:
    control = ab_records.controlled(SUB, environments=PAIR, seconds=1.0)
    run = run_of(*TIMES, control, kind=RunKind.OVERRIDES, environments=SIDES)
    assert len(view_of(run).data.rows) == 2
    assert "0 of 1 base/base comparison found a change" in " ".join(render(run, "markdown").split())
    assert view_ladders(run).summary == "2 done."


def test_without_profiles_there_are_no_flame_graphs() -> None:
    run = run_of(*TIMES, kind=RunKind.OVERRIDES, environments=SIDES)
    assert not any(section.pictures for section in view_of(run).sections)


def test_what_could_not_be_drawn_is_told() -> None:
    failed = ab_records.missing(
        SUB, Metric.PROFILE, Status.FAILED, "py-spy is missing; install it", environments=PAIR
    )
    run = run_of(*TIMES, failed, kind=RunKind.OVERRIDES, environments=SIDES)
    for form in ("text", "markdown", "html"):
        assert "py-spy is missing; install it" in render(run, form)


def test_a_case_with_odd_labels_has_a_plain_file_name() -> None:
    odd = records.case("overrides", "../a b/c", "d;e", stmt="pass")
    assert name_picture("base", odd) == "base-a-b-c-d-e"
    assert name_picture("branch", records.case("sum(x)", stmt="sum(x)")) == "branch-sum-x"
