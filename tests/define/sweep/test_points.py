from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.define.sweep.specs import cases, spec
from torchmark.define.sweep.expressions import WhereError, filter_of
from torchmark.define.sweep.points import (
    all_cases,
    number_of_points,
    seconds_for,
    with_valid_points,
)
from torchmark.define.sweep.spec import read_spec
from torchmark.errors import DefinitionError, InvalidArgumentError
from torchmark.model.run_settings import Phase, point_of, sizes_setting

if TYPE_CHECKING:
    from torchmark.define.sweep.points import SweepCase

GOLDEN = Path(__file__).parents[2] / "data" / "version_1"

sizes = st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


@given(sizes, sizes, st.integers(1, 20))
def test_every_combination_is_a_case_and_a_sample_is_of_them(
    batch: list[int], features: list[int], number: int
) -> None:
    scales = {"batch": batch, "features": features, "times": [2]}
    every = cases(input_scales=scales)
    assert len(every) == 2 * len(batch) * len(features)
    assert len({case.id for case, _ in every}) == len(every)
    drawn = all_cases(spec(input_scales=scales), sample=number)
    assert len(drawn) == 2 * min(number, len(batch) * len(features))
    assert {case.id for case, _ in drawn} <= {case.id for case, _ in every}
    assert drawn == all_cases(spec(input_scales=scales), sample=number)


def test_points_with_the_same_model_stand_together_and_configs_side_by_side() -> None:
    found = cases(input_scales={"batch": [1, 2], "features": [8], "times": [3, 2]})
    shown = [(dict(point.dims)["times"], dict(point.dims)["batch"], point.backend)
             for _, point in found]  # fmt: skip
    assert shown == [
        (3, 1, "pt"), (3, 1, "ort"), (3, 2, "pt"), (3, 2, "ort"),
        (2, 1, "pt"), (2, 1, "ort"), (2, 2, "pt"), (2, 2, "ort"),
    ]  # fmt: skip


def test_the_id_of_a_case_follows_from_its_size_config_and_model() -> None:
    one = {case.id for case, _ in cases()}
    assert one == {case.id for case, _ in cases()}
    assert not one & {case.id for case, _ in cases(job_configs=["pt fp16"])}
    assert not one & {case.id for case, _ in cases(model=lambda x, *, times: x)}
    more = cases(input_scales={"batch": [1, 2, 4, 8], "features": [8, 16], "times": [2]})
    assert one < {case.id for case, _ in more}


def test_a_point_is_read_back_from_its_case() -> None:
    configs = ["pt fp32", "compile fp16", {"backend": "ort", "dtype": "int8", "threads": 2}]
    found = all_cases(spec(job_configs=configs), phases=tuple(Phase))
    settings = sizes_setting(found)
    assert [point_of(case, settings) for case, _ in found] == [point for _, point in found]


def test_ids_are_those_of_version_0_1() -> None:
    """So that a sweep in an older store is of the same cases."""
    with (GOLDEN / "linear.csv").open(newline="") as file:
        ids = [row["case_id"] for row in csv.DictReader(file)]
    assert [case.id for case, _ in all_cases(read_spec(GOLDEN / "linear.py"))] == ids


def test_phases_are_those_of_the_config_or_of_the_sweep() -> None:
    given_spec = spec(job_configs=["pt fp32", {"backend": "ort", "phase": "backward"}])
    found = all_cases(given_spec, phases=(Phase.FORWARD, Phase.FORWARD_BACKWARD))
    assert {(point.backend, point.phase) for _, point in found} == {
        ("pt", Phase.FORWARD), ("pt", Phase.FORWARD_BACKWARD), ("ort", Phase.BACKWARD),
    }  # fmt: skip


def test_a_filter_knows_dimensions_and_configs() -> None:
    found = cases("batch * features <= 16 and backend in ('pt',) and not threads > 1")
    assert {(dict(point.dims)["batch"], dict(point.dims)["features"]) for _, point in found} == {
        (1, 8), (2, 8), (1, 16),
    }  # fmt: skip
    assert {point.backend for _, point in found} == {"pt"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch <", "invalid syntax"),
        ("bach < 4", "unknown name 'bach'; the names are batch"),
        ("open('x')", "does not support calls"),
        ("batch.real < 4", "does not support attributes"),
        ("batch ** 9 > 1", "does not support powers"),
        ("[b for b in (1, 2)]", "does not support"),
        ("(lambda: 1)()", "does not support calls"),
    ],
)
def test_a_filter_that_is_not_understood_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(WhereError, match=r"^--where") as raised:
        filter_of(text, ["batch", "dtype"])
    assert said in str(raised.value)
    assert "^" in str(raised.value)


def test_a_filter_that_ends_too_early_is_marked_at_its_end() -> None:
    with pytest.raises(WhereError) as raised:
        filter_of("batch <", ["batch"])
    assert "\n    batch <\n           ^" in str(raised.value)


def test_what_cannot_be_compared_is_told_when_it_is_met() -> None:
    for text in ("batch < dtype", "dtype * 1000000000 > batch", "batch / 0 > 1"):
        with pytest.raises(WhereError, match=r"^--where: "):
            filter_of(text, ["batch", "dtype"])({"batch": 1, "dtype": "fp32"})


def test_a_filter_that_leaves_nothing_is_told() -> None:
    with pytest.raises(InvalidArgumentError, match="batch > 100"):
        cases("batch > 100")


def test_a_product_that_nobody_can_wait_for_can_be_sampled_but_not_gone_through() -> None:
    huge = {"batch": range(1, 10_001), "features": range(1, 10_001), "times": [2]}
    with pytest.raises(InvalidArgumentError, match=r"200,000,000 cases, about 463 days.*--sample"):
        cases(input_scales=huge)
    assert len(all_cases(spec(input_scales=huge), sample=5)) == 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-" * 90_000 + "1", "nested operations"),  # MemoryError in Python's parser
        ("-" * 1_000 + "1", "nested operations"),  # RecursionError where it is evaluated
        ("not " * 9_000 + "batch", "nested operations"),
        ("(" * 1_000 + "1" + ")" * 1_000, "nested parentheses"),
        ("+".join(["batch"] * 3_000), "nested operations"),
        ("batch and " * 20_000 + "batch", "more than 100,000 characters"),
        ("9" * 5_000, "below 2**63"),
        ("0x" + "f" * 5_000, "below 2**63"),
        ("1e999 > batch", "below 2**63"),
        ("b'x' * 10000000000 > b''", "a number or text"),
        ("batch\0", "null"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_filter_that_nobody_writes_by_hand_is_refused_in_a_few_lines(
    text: str, said: str
) -> None:
    with pytest.raises(WhereError, match=r"^--where: ") as raised:
        filter_of(text, ["batch"])({"batch": 1})
    assert said in str(raised.value)
    assert len(str(raised.value)) < 500


def test_a_filter_may_have_lines_and_letters_of_any_language() -> None:
    assert filter_of("batch\n  == 3", ["batch"])({"batch": 3})
    with pytest.raises(WhereError, match="unknown name 'bach'") as raised:
        filter_of("'é' == bach", ["batch"])
    assert raised.value.position == len("'é' == ")


def test_a_sample_is_bounded_too() -> None:
    huge = {name: range(1, 10_001) for name in ("batch", "features", "times")}
    with pytest.raises(InvalidArgumentError, match="4,000,000 cases"):
        all_cases(spec(input_scales=huge), sample=2_000_000)
    more = spec(
        input_params=[["batch", "features", "a", "b", "c"]],
        input_scales={**huge, "a": range(1, 10_001), "b": range(1, 10_001), "c": [1]},
    )
    with pytest.raises(InvalidArgumentError, match="100,000,000,000,000,000,000 combinations"):
        all_cases(more, sample=5)


def sizes_of(found: list[SweepCase]) -> list[tuple[int, ...]]:
    """Of the points, each once."""
    return list(dict.fromkeys(tuple(size for _, size in point.dims) for _, point in found))


@pytest.mark.parametrize(
    "valid",
    [
        lambda batch, features: features % (batch * 8) == 0,
        lambda **point: point["features"] % (point["batch"] * 8) == 0,
        lambda batch, features, factor=8: features % (batch * factor) == 0,
        "features % (batch * 8) == 0",
    ],
)
def test_points_that_are_not_valid_are_no_cases(valid: Any) -> None:
    allowed = with_valid_points(spec(valid=valid))
    assert number_of_points(allowed) == 3
    assert sizes_of(all_cases(allowed)) == [(1, 8, 2), (1, 16, 2), (2, 16, 2)]
    assert sizes_of(all_cases(allowed, where="batch == 1")) == [(1, 8, 2), (1, 16, 2)]
    drawn = sizes_of(all_cases(allowed, sample=2))
    assert len(drawn) == 2
    assert set(drawn) < set(sizes_of(all_cases(allowed)))
    assert len(sizes_of(all_cases(allowed, sample=9))) == 3


def test_what_is_valid_is_asked_of_the_sizes_that_are_set() -> None:
    asked = spec(valid="batch > 4", input_scales={"batch": [1], "features": [8], "times": [2]})
    assert sizes_of(all_cases(with_valid_points(asked.with_sizes({"batch": (4, 8)})))) == [
        (8, 8, 2)
    ]


def test_what_is_valid_is_not_asked_at_billions_of_points() -> None:
    many = {"batch": range(1, 9999), "features": range(1, 9999), "times": [2]}
    with pytest.raises(DefinitionError, match=r"valid would be evaluated at 99,960,004 points"):
        with_valid_points(spec(valid=lambda: True, input_scales=many))


def test_threads_are_a_dimension_that_filters_and_rules_know() -> None:
    scales = {"batch": [1, 2], "features": [8], "times": [2], "threads": [1, 2]}
    allowed = with_valid_points(
        spec(input_scales=scales, valid=lambda batch, threads: batch >= threads)
    )
    found = all_cases(allowed)
    assert [(dict(point.dims)["batch"], point.threads, point.backend) for _, point in found] == [
        (1, 1, "pt"), (1, 1, "ort"), (2, 1, "pt"), (2, 1, "ort"), (2, 2, "pt"), (2, 2, "ort"),
    ]  # fmt: skip
    assert all(case.num_threads == point.threads for case, point in found)
    assert all("threads" not in dict(point.dims) for _, point in found)
    assert {point.threads for _, point in all_cases(allowed, where="threads > 1")} == {2}
    plain = cases(input_scales={name: scales[name] for name in ("batch", "features", "times")})
    assert {case.id for case, _ in plain} < {
        case.id for case, _ in all_cases(spec(input_scales=scales))
    }


def test_a_static_compilation_is_reckoned_for_each_point() -> None:
    seconds = {
        backend: seconds_for(made, all_cases(made))
        for backend in ("compile", "compile-static")
        for made in [spec(job_configs=[backend])]
    }
    assert seconds["compile-static"] - seconds["compile"] == pytest.approx(8.0 * (6 - 1))
