"""The records for PyTorch's HUD: the fields and types of its schema v3."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests import ab_records, histories, records
from torchmark.model.result import Metric, Status
from torchmark.report.formats import hud

ADD = records.case("Pointwise", "add", params=(("dtype", "float32"),))
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
UINT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def object_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False}


SCHEMA = {
    "type": "array",
    "items": {
        **object_of(
            benchmark=object_of(name=TEXT, mode=TEXT, dtype=TEXT, extra_info=TEXTS),
            model=object_of(
                name=TEXT,
                type=TEXT,
                backend=TEXT,
                origins={"type": "array", "items": TEXT},
                extra_info=TEXTS,
            ),
            metric=object_of(
                name=TEXT,
                benchmark_values={"type": "array", "items": {"type": "number"}, "minItems": 1},
                target_value={"type": "number"},
                extra_info=TEXTS,
            ),
            runners={
                "type": "array",
                "items": object_of(
                    name=TEXT, type=TEXT, cpu_info=TEXT, cpu_count=UINT, extra_info=TEXTS
                ),
            },
            dependencies={
                "type": "object",
                "additionalProperties": object_of(
                    repo=TEXT, branch=TEXT, sha=TEXT, version=TEXT, extra_info=TEXTS
                ),
            },
        ),
        "required": ["benchmark", "model", "metric", "runners", "dependencies"],
    },
}
"""The part of the table oss_ci_benchmark_v3 that a file of results has."""


def checked(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    jsonschema.validate(found, SCHEMA)
    return found


def test_a_run_has_a_record_for_each_case_and_metric() -> None:
    run = histories.run_on(
        1, records.time_result(ADD, 2e-6), records.count_result(ADD, 123_400),
        records.failed_result(records.case("x")), facts={"torchmark": "0.2.0", "python": "3.11.7"},
    )  # fmt: skip
    time, count = checked(hud.render(run))
    assert time["benchmark"]["name"] == "torchmark"
    assert (time["benchmark"]["dtype"], time["benchmark"]["mode"]) == ("float32", "inference")
    assert time["model"]["name"] == ADD.title
    assert time["model"]["extra_info"]["case"] == ADD.id
    assert time["metric"]["name"] == "time_us"
    assert time["metric"]["benchmark_values"] == [pytest.approx(2.0)]
    assert count["metric"]["name"] == "instructions"
    assert count["metric"]["benchmark_values"] == [1234.0]
    assert time["runners"] == [
        {
            "name": "ci-1",
            "type": "x86_64",
            "cpu_info": "Fast One",
            "cpu_count": 2,
            "extra_info": {"system": "Linux 6.1 x86_64"},
        }
    ]
    assert time["dependencies"]["torch"]["version"] == "2.13.0"
    assert time["dependencies"]["torchmark"]["version"] == "0.2.0"


def test_a_comparison_has_the_figures_of_the_second_environment() -> None:
    run = ab_records.run_of(
        ab_records.timed(ADD, 1.1),
        ab_records.counted(ADD, {"f": 1000}, {"f": 1100}),
        ab_records.missing(records.case("x"), Metric.TIME, Status.FAILED, "no"),
    )
    time, count = checked(hud.render(run))
    assert time["metric"]["benchmark_values"] == [pytest.approx(2.2, rel=1e-3)]
    assert float(time["metric"]["extra_info"]["ratio"]) == pytest.approx(1.1, rel=1e-3)
    assert time["metric"]["extra_info"]["verdict"] == "slower"
    assert count["metric"]["benchmark_values"] == [1100.0]
    assert count["metric"]["extra_info"]["before"] == "1000.0"
    assert time["dependencies"]["torch"]["version"] == "2.13.0", "that of B"


def test_unknown_facts_and_control_characters_are_no_obstacle() -> None:
    odd = records.case("<b>\x1b[31m\x00")
    run = records.run_of(odd, environments=(), results=(records.time_result(odd),))
    text = hud.render(run)
    assert "\x1b" not in text
    (record,) = checked(text)
    assert record["model"]["name"] == odd.title
