from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.define.sweep.specs import cases, spec
from torchmark.define.sweep.points import Choice, all_cases
from torchmark.define.sweep.where import WhereError, filter_of
from torchmark.errors import InvalidArgumentError
from torchmark.model.sweep_record import Phase

sizes = st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True)


@given(sizes, sizes, st.integers(1, 20))
def test_every_combination_is_a_case_and_a_sample_is_of_them(
    batch: list[int], features: list[int], number: int
) -> None:
    scales = {"batch": batch, "features": features, "times": [2]}
    every = cases(input_scales=scales)
    assert len(every) == 2 * len(batch) * len(features)
    assert len({case.row.case_id for case in every}) == len(every)
    drawn = all_cases(spec(input_scales=scales), Choice(sample=number))
    assert len(drawn) == 2 * min(number, len(batch) * len(features))
    assert {case.row.case_id for case in drawn} <= {case.row.case_id for case in every}
    assert drawn == all_cases(spec(input_scales=scales), Choice(sample=number))


def test_points_with_the_same_model_stand_together_and_configs_side_by_side() -> None:
    found = cases(input_scales={"batch": [1, 2], "features": [8], "times": [3, 2]})
    shown = [(dict(case.dims)["times"], dict(case.dims)["batch"], case.row.backend)
             for case in found]  # fmt: skip
    assert shown == [
        (3, 1, "pt"), (3, 1, "ort"), (3, 2, "pt"), (3, 2, "ort"),
        (2, 1, "pt"), (2, 1, "ort"), (2, 2, "pt"), (2, 2, "ort"),
    ]  # fmt: skip


def test_the_id_of_a_case_follows_from_its_size_config_and_model() -> None:
    one = {case.row.case_id for case in cases()}
    assert one == {case.row.case_id for case in cases()}
    assert not one & {case.row.case_id for case in cases(job_configs=["pt fp16"])}
    assert not one & {case.row.case_id for case in cases(model=lambda x, *, times: x)}
    more = cases(input_scales={"batch": [1, 2, 4, 8], "features": [8, 16], "times": [2]})
    assert one < {case.row.case_id for case in more}


def test_phases_are_those_of_the_config_or_of_the_sweep() -> None:
    given_spec = spec(job_configs=["pt fp32", {"backend": "ort", "phase": "backward"}])
    found = all_cases(given_spec, Choice(phases=(Phase.FORWARD, Phase.FORWARD_BACKWARD)))
    assert {(case.row.backend, case.row.phase) for case in found} == {
        ("pt", Phase.FORWARD), ("pt", Phase.FORWARD_BACKWARD), ("ort", Phase.BACKWARD),
    }  # fmt: skip


def test_a_filter_knows_dimensions_and_configs() -> None:
    found = cases("batch * features <= 16 and backend in ('pt',) and not threads > 1")
    assert {(dict(case.dims)["batch"], dict(case.dims)["features"]) for case in found} == {
        (1, 8), (2, 8), (1, 16),
    }  # fmt: skip
    assert {case.row.backend for case in found} == {"pt"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch <", "invalid syntax"),
        ("bach < 4", "there is no 'bach'; there are batch"),
        ("open('x')", "does not know calls"),
        ("batch.real < 4", "does not know attributes"),
        ("batch ** 9 > 1", "does not know powers"),
        ("[b for b in (1, 2)]", "does not know"),
        ("(lambda: 1)()", "does not know calls"),
    ],
)
def test_a_filter_that_is_not_understood_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(WhereError) as raised:
        filter_of(text, ["batch", "dtype"])
    assert said in str(raised.value)
    assert "^" in str(raised.value)


def test_a_filter_that_ends_too_early_is_marked_at_its_end() -> None:
    with pytest.raises(WhereError) as raised:
        filter_of("batch <", ["batch"])
    assert "\n    batch <\n           ^" in str(raised.value)


def test_what_cannot_be_compared_is_told_when_it_is_met() -> None:
    for text in ("batch < dtype", "dtype * 1000000000 > batch", "batch / 0 > 1"):
        with pytest.raises(WhereError):
            filter_of(text, ["batch", "dtype"])({"batch": 1, "dtype": "fp32"})


def test_a_filter_that_leaves_nothing_is_told() -> None:
    with pytest.raises(InvalidArgumentError, match="batch > 100"):
        cases("batch > 100")


def test_a_product_that_nobody_can_wait_for_can_be_sampled_but_not_gone_through() -> None:
    huge = {"batch": range(1, 10_001), "features": range(1, 10_001), "times": [2]}
    with pytest.raises(InvalidArgumentError, match=r"200,000,000 cases, about 463 days.*--sample"):
        cases(input_scales=huge)
    assert len(all_cases(spec(input_scales=huge), Choice(sample=5))) == 10
