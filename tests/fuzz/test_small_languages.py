"""Patterns, filters, sizes, signatures, blocks, settings, percentages, stacks, callgrind files."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given

from tests.callgrind.samples import SMALL
from tests.fuzz.mutations import fuzz, texts_like, values_like
from torchmark.callgrind.parse import parse_text
from torchmark.cli.shell import Percent
from torchmark.cli.stored import _PERCENT
from torchmark.define.expansion import materialize
from torchmark.define.grouped import GroupedStmts, GroupedVariants
from torchmark.define.selection import selected
from torchmark.define.signature import Signature
from torchmark.define.sweep.axes import MOST_SIZES, configs_of, setting, sizes_of
from torchmark.define.sweep.expressions import filter_of
from torchmark.errors import TorchmarkError
from torchmark.flame.stacks import fold_stacks, parse_stacks, render_speedscope
from torchmark.flame.svg import flame_svg
from torchmark.model.case import Case
from torchmark.settings import settings_for

CASES = [Case(label=("Pointwise", "add"), stmt="x + y"), Case(label=("a b", "(c)"), stmt="x")]
VALUES = {"batch": 4, "features": 16, "backend": "pt", "dtype": "fp32"}


@fuzz
@given(
    texts_like("add and not (C++ or 'a b')", '"in place" or add not x', "not not (a (b or c) d)")
)
def test_patterns(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        selected(CASES, text)


@fuzz
@given(
    texts_like(
        "2 * batch < 10 and backend == 'pt'",
        "not (batch % 3 == 0 or -features // 2 in (1, 2.5, [3])) and dtype not in ['fp32']",
        "1 < batch <= features + 1e3 / 7 - -2 != 'x'",
    )
)
def test_filters(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        assert filter_of(text, VALUES)(VALUES) in (True, False)


@fuzz
@given(
    texts_like(
        "batch=1,2,4", "batch = [8, 16.0]", "rows=range(1, 9, 2)", "a=linspace(1, 100, 5)",
        "b=logspace(0, 10, 11, base=2)", "c={'range': [1, 9]}",
        "d=linspace(start=1, end=9, steps=3)",
    )
)  # fmt: skip
def test_sizes_as_text(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        _, sizes = setting(text)
        assert 0 < len(sizes) <= MOST_SIZES


@fuzz
@given(
    values_like([1, 2.0, 4], {"range": [1, 9]}, {"logspace": {"start": 0, "end": 3, "steps": 4}})
)
def test_sizes_as_values(value: Any) -> None:
    with contextlib.suppress(TorchmarkError):
        assert 0 < len(sizes_of("batch", value)) <= MOST_SIZES


@fuzz
@given(
    values_like(
        ["pt fp32", ("ort", "fp16"), {"backend": ["pt"], "threads": [1, 2]}], {"dtype": "fp16"}
    )
)
def test_job_configs(value: Any) -> None:
    with contextlib.suppress(TorchmarkError):
        assert configs_of(value)


@fuzz
@given(
    texts_like(
        "f(x, w) -> y", "f(x: List[Tensor], n: int) -> y, (h: float, c)", "f() -> None",
        "größe(a: Dict[str, torch.Tensor],) -> (a,), b",
    )
)  # fmt: skip
def test_signatures(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        signature = Signature.parse(text)
        assert Signature.parse(str(signature)) == signature


PYTHON = "# @Setup\nx = torch.ones((4, 4))\n\n# @add\nx + 1\n# nothing\nx.add_(1)\n"
CPP = "// @Global_Setup\n#include <a>\n// @Setup\nauto x = 1;\n// @add\nx + 1;\n"


@fuzz
@given(texts_like(PYTHON, ""), texts_like(CPP, ""))
def test_blocks_of_variants(python: str, cpp: str) -> None:
    with contextlib.suppress(TorchmarkError):
        materialize({"a": GroupedVariants(python, cpp)})


@fuzz
@given(values_like({"n": [1, 2.5, True], "m": ["a", [1, 2]]}))
def test_grids(params: Any) -> None:
    with contextlib.suppress(TorchmarkError):
        if params is None or isinstance(params, dict):
            materialize({"a": GroupedStmts("n", "n;", params=params)})


SETTINGS = """\
suites = ["standard", "bench/"]
store = "results.db"
[thresholds]
time = 2.5
count = 0
[run]
threads = 2
repeats = 3
timeout = 1e3
cpp = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


@fuzz
@given(texts_like(SETTINGS))
def test_files_of_settings(folder: Path, text: str) -> None:
    (folder / "torchmark.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(TorchmarkError):
        settings_for(folder)


@fuzz
@given(texts_like("0.5%", "5 %", "1e-3%", "12"))
def test_percentages(text: str) -> None:
    for kind in (Percent(), _PERCENT):
        with contextlib.suppress(click.UsageError):
            assert 0 <= kind.convert(text, None, None) < float("inf")


@fuzz
@given(texts_like("main;outer (a.py:3);inner 284\nmain;0x7fd5 (libc.so.6) 12\r\n\nx 1\n"))
def test_folded_stacks(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        stacks = parse_stacks(text)
        folded = fold_stacks(stacks)
        assert fold_stacks(parse_stacks(folded)) == folded
        render_speedscope(stacks, name="x")
        flame_svg(stacks, title="x", unit="samples", note="")


@fuzz
@given(texts_like(SMALL))
def test_files_of_callgrind(text: str) -> None:
    with contextlib.suppress(TorchmarkError):
        profile = parse_text(text)
        assert sum(function.exclusive for function in profile.functions) == profile.total
