"""torch's Compare is the reference for the text, character by character."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch.utils.benchmark as reference
from hypothesis import given
from hypothesis import strategies as st

import torchmark
from torchmark import Compare, Measurement, TaskSpec
from torchmark.errors import EmptyMeasurementError, InvalidArgumentError, UnknownRowError

# torch dies on some of these; what it prints for the rest is what we must print.
specs = st.fixed_dictionaries(
    {
        "stmt": st.sampled_from(["x + y", "matmul(x, y)"]),
        "setup": st.sampled_from(["pass", "x = 1"]),
        "label": st.sampled_from([None, "add", "multiply"]),
        "sub_label": st.sampled_from([None, "", "one", "another one"]),
        "description": st.sampled_from(["", "4x4", "size: 100"]),
        "env": st.sampled_from(["main", "a branch"]),
        "num_threads": st.sampled_from([1, 2, 16]),
    }
)
results = st.lists(
    st.tuples(
        st.sampled_from([1, 100]),
        st.lists(st.floats(min_value=1e-6, max_value=1.0), min_size=1, max_size=12),
        specs,
    ),
    min_size=1,
    max_size=12,
)


def configured(compare: Any, trim: bool, colour: str, warn: bool) -> str:
    if trim:
        compare.trim_significant_figures()
    if colour:
        compare.colorize(rowwise=colour == "rowwise")
    if warn:
        compare.highlight_warnings()
    return str(compare)


@given(results, st.booleans(), st.sampled_from(["", "columnwise", "rowwise"]), st.booleans())
def test_the_text_is_torchs(
    parts: list[tuple[int, list[float], dict[str, Any]]], trim: bool, colour: str, warn: bool
) -> None:
    theirs = [reference.Measurement(n, t, reference.TaskSpec(**s)) for n, t, s in parts]
    ours = [Measurement(n, t, TaskSpec(**s)) for n, t, s in parts]
    expected = configured(reference.Compare(theirs), trim, colour, warn)
    assert configured(Compare(ours), trim, colour, warn) == expected


SPEC = TaskSpec("x + y", "pass", label="add", sub_label="plus", description="4x4")


def steady(spec: TaskSpec, seconds: float) -> Measurement:
    return Measurement(1, [seconds] * 5, spec)


def test_a_table_reads_like_this() -> None:
    shown = str(
        Compare(
            [
                steady(SPEC, 2e-6),
                steady(replace(SPEC, sub_label="torch.add"), 3.46e-6),
                steady(replace(SPEC, description="64x64"), 5e-6),
                steady(replace(SPEC, num_threads=2), 1e-6),
            ]
        )
    )
    assert shown == (
        "[------------- add -------------]\n"
        "                 |  4x4  |  64x64\n"
        "1 threads: ----------------------\n"
        "      plus       |  2.0  |   5.0 \n"
        "      torch.add  |  3.5  |       \n"
        "2 threads: ----------------------\n"
        "      plus       |  1.0  |       \n"
        "\n"
        "Times are in microseconds (us).\n"
    )


def test_a_mix_of_named_and_unnamed_envs_is_shown() -> None:
    shown = str(Compare([steady(SPEC, 1e-6), steady(replace(SPEC, env="branch"), 2e-6)]))
    assert "(Unspecified env)" in shown
    assert "(branch)" in shown


@pytest.mark.parametrize("others", [[], ["4x4"]])
def test_a_missing_description_is_an_empty_title(others: list[str]) -> None:
    results = [steady(replace(SPEC, description=text), 1e-6) for text in [None, *others]]
    assert "None" not in str(Compare(results))


def test_zero_and_tiny_times_are_shown() -> None:
    shown = str(Compare([steady(SPEC, 0.0), steady(replace(SPEC, sub_label="tiny"), 4e-13)]))
    assert "nanoseconds" in shown
    compare = Compare([steady(SPEC, 0.0), steady(replace(SPEC, sub_label="tiny"), 4e-13)])
    compare.trim_significant_figures()
    compare.colorize()
    compare.highlight_warnings()
    assert "plus" in str(compare)


def test_differences_below_100_ns_are_not_worth_a_colour() -> None:
    compare = Compare([steady(SPEC, 3e-7), steady(replace(SPEC, sub_label="other"), 3.9e-7)])
    compare.colorize()
    assert str(compare).count("\033[92m") == 2


def test_no_results_print_nothing_as_torchs_and_make_no_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Compare([]).print()
    ours = capsys.readouterr().out
    reference.Compare([]).print()
    assert ours == capsys.readouterr().out
    assert ours.strip() == str(Compare([])) == ""
    for show in (Compare([]).to_csv, Compare([]).to_html,
                 Compare([]).to_json, Compare([]).to_markdown):  # fmt: skip
        with pytest.raises(EmptyMeasurementError, match="no results"):
            show()


def test_results_may_be_added_later() -> None:
    compare = Compare([])
    compare.extend_results([steady(SPEC, 1e-6)])
    assert "plus" in str(compare)


def test_what_is_no_measurement_is_refused_and_nothing_is_added() -> None:
    compare = Compare([steady(SPEC, 1e-6)])
    with pytest.raises(InvalidArgumentError, match="got str"):
        compare.extend_results([steady(replace(SPEC, sub_label="new"), 1.0), "result"])  # type: ignore[list-item]
    assert "new" not in str(compare)


def test_print_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    compare = Compare([steady(SPEC, 1e-6)])
    compare.print()
    assert capsys.readouterr().out == str(compare) + "\n"


def test_replicates_are_merged() -> None:
    twice = [Measurement(1, [1e-6], SPEC), Measurement(1, [3e-6], SPEC)]
    assert "2.0" in str(Compare(twice))


def ratios(**baseline: Any) -> str:
    compare = Compare(
        [
            steady(SPEC, 2e-6),
            steady(replace(SPEC, sub_label="slow"), 5e-6),
            steady(replace(SPEC, sub_label="only here", description="64x64"), 1e-6),
            steady(replace(SPEC, sub_label="slow", num_threads=2), 1e-6),
            steady(replace(SPEC, num_threads=2), 4e-6),
        ]
    )
    compare.relative_to(**baseline)
    return str(compare)


def test_cells_can_be_ratios_to_a_row_of_the_same_column_and_threads() -> None:
    lines = ratios(row="plus").splitlines()
    assert [line.split("|")[1].strip() for line in lines if "slow" in line] == ["2.500x", "0.250x"]
    assert [line.split("|")[1].strip() for line in lines if " plus " in line and "|" in line] == [
        "1.000x"
    ] * 2
    assert all(not cell.strip() for line in lines if "only" in line for cell in line.split("|")[1:])
    assert "ratios to plus" in lines[-1]


def test_an_unknown_baseline_is_an_error_that_lists_the_rows() -> None:
    with pytest.raises(UnknownRowError, match=r"'nonsense'.*'plus', 'slow', 'only here'"):
        ratios(row="nonsense")
    with pytest.raises(UnknownRowError, match="in env 'nowhere'"):
        ratios(row="plus", env="nowhere")


def test_a_baseline_may_be_a_row_of_another_env() -> None:
    compare = Compare(
        [steady(replace(SPEC, env="main"), 2e-6), steady(replace(SPEC, env="branch"), 3e-6)]
    )
    compare.relative_to("plus")
    assert str(compare).count("1.000x") == 2, "within its own env unless told otherwise"
    compare.relative_to("plus", env="main")
    assert "1.500x" in str(compare)


def test_colorize_is_public_as_in_torch() -> None:
    names = {member.name for member in torchmark.Colorize}
    assert names == {member.name for member in reference.utils.compare.Colorize}


def test_results_of_torch_itself_are_shown_too() -> None:
    theirs = reference.Measurement(1, [2e-6] * 5, reference.TaskSpec("x", "pass", label="add",
                                   sub_label="torch's", description="4x4"))  # fmt: skip
    shown = str(Compare([steady(SPEC, 1e-6), theirs]))  # type: ignore[list-item]
    assert "torch's" in shown
    assert "2.0" in shown
