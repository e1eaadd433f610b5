"""The probe in a real old environment: Debian's torch 1.13, by the system's own Python."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.engine.zygote_cases import QUICK, case, instructions
from tests.probe.test_replay_calls import tensor, text
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Cache
from torchmark.engine.cpp.compiler import toolchain_of
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.environments import ask_interpreter
from torchmark.engine.replaying_in_order import replay_in_order
from torchmark.engine.under_test import SETUP_MODULES
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

# `make test` installs it: scripts/test_tools.sh.
OLD_PYTHON = os.environ.get("TORCHMARK_OLD_PYTHON", "/usr/bin/python3")

TRAINING = case(
    "m(x).sum().backward()", "m = torch.nn.Linear(4, 4); x = torch.ones((4, 4)); print('made')"
)


@pytest.fixture(scope="module")
def counting() -> Iterator[Zygote]:
    with Zygote(Launch(interpreter=ask_interpreter(OLD_PYTHON), under_callgrind=True)) as zygote:
        yield zygote


@pytest.fixture(scope="module")
def timing() -> Iterator[Zygote]:
    launch = Launch(interpreter=ask_interpreter(OLD_PYTHON), modules=SETUP_MODULES)
    with Zygote(launch) as zygote:
        yield zygote


@pytest.fixture(scope="module")
def compiled(timing: Zygote, tmp_path_factory: pytest.TempPathFactory) -> dict[str, NativeCase]:
    """Statements in C++, built together for the old torch."""
    statements = {
        "operator": CppStatement("x + x", "auto x = torch::ones({4, 4});"),
        "module": CppStatement("m(x);", "torch::nn::Linear m(4, 4); auto x = torch::ones({4, 4});"),
        "version": CppStatement(
            "throw std::runtime_error(TORCH_VERSION);", "", "#include <torch/version.h>"
        ),
    }
    results = build(
        list(statements.values()),
        toolchain=toolchain_of(timing.start()),
        cache=Cache(tmp_path_factory.mktemp("old")),
    )
    cases = {}
    for name, result in zip(statements, results, strict=True):
        assert isinstance(result, NativeCase), result
        cases[name] = result
    return cases


@pytest.fixture(params=["timing", "counting"])
def old(request: pytest.FixtureRequest) -> Zygote:
    zygote: Zygote = request.getfixturevalue(request.param)
    return zygote


def test_an_old_torch_is_timed(old: Zygote) -> None:
    assert int(old.start()["torch"].partition(".")[0]) < 2
    sample = old.sample(TRAINING, limits=QUICK)
    assert all(time > 0 for time in sample.sampling.wall)
    assert sample.output.stdout == "made\n"


def test_a_failure_in_an_old_torch_costs_only_itself(old: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="In the statement, line 1") as caught:
        old.sample(case("torch.ones(2) @ torch.ones(3)"), limits=QUICK)
    assert caught.value.kind == "raised"
    assert old.sample(TRAINING, limits=QUICK).sampling.wall


def test_counts_of_an_old_torch_repeat_to_the_instruction(counting: Zygote) -> None:
    counts = {instructions(counting.count(TRAINING).out_file) for _ in range(3)}
    assert len(counts) == 1
    assert counts.pop() > 100_000


def test_cpp_is_compiled_with_the_headers_of_the_old_torch(
    timing: Zygote, compiled: dict[str, NativeCase]
) -> None:
    with pytest.raises(CaseFailedError) as caught:
        timing.run(compiled["version"])
    numbers = timing.start()["torch"].partition("a")[0]
    assert f"RuntimeError: {numbers}" in str(caught.value)


@pytest.mark.parametrize("name", ["operator", "module"])
def test_cpp_is_timed_in_an_old_torch(
    old: Zygote, compiled: dict[str, NativeCase], name: str
) -> None:
    assert all(time > 0 for time in old.sample(compiled[name], limits=QUICK).sampling.wall)


@pytest.mark.parametrize("name", ["operator", "module"])
def test_counts_of_cpp_in_an_old_torch_repeat_to_the_instruction(
    counting: Zygote, compiled: dict[str, NativeCase], name: str
) -> None:
    counts = {instructions(counting.count(compiled[name]).out_file) for _ in range(3)}
    assert len(counts) == 1
    assert counts.pop() > 100_000


REPLAY = """
from torchmark_probe.replay import calls
calls.settle()
operator, args, kwargs = calls.rebuild(text)
print(calls.mismatches(text, args, kwargs, operator(*args, **kwargs)))
"""


def test_a_recorded_call_is_made_again_in_an_old_torch(timing: Zygote) -> None:
    call = text("aten.t.default", tensor(2, 3, storage=0), outputs=tensor(
        3, 2, strides=[1, 3], storage=0
    ))  # fmt: skip
    recipe = {"text": {"kind": "json", "value": call}}
    sample = timing.sample(
        PythonCase(stmt="operator(*args, **kwargs)", setup=REPLAY, globals=recipe), limits=QUICK
    )
    assert sample.output.stdout == "[]\n"


@pytest.mark.parametrize(
    ("stmt", "missing"),
    [
        ("torch.func.vmap(torch.neg)", "torch.func"),
        ("from torch.func import vmap", "torch.func"),
        ("from torch import compile", "torch.compile"),
        ("torch.nn.functional.scaled_dot_product_attention(x, x, x)",
         "torch.nn.functional.scaled_dot_product_attention"),
        ("x.no_such()", "Tensor.no_such"),
        ("torch.Tensor.no_such", "Tensor.no_such"),
        ("torch.ops.aten._fused_adamw_(x)", "operator aten._fused_adamw_"),
        ("torch.ops.aten.add.no_such", "operator aten.add.no_such"),
        ("torch.ops.aten.cudnn_batch_norm(x, x, x, x, x, True, 0.1, 0.1)",
         "operator aten.cudnn_batch_norm for CPU"),
        ("x.half() @ x.half()", "addmm_impl_cpu_ for Half"),
        ("x.cuda()", "CUDA"),
    ],
)  # fmt: skip
def test_what_an_old_torch_lacks_is_said_without_a_class(
    timing: Zygote, stmt: str, missing: str
) -> None:
    with pytest.raises(CaseFailedError) as caught:
        timing.run(case(stmt, "x = torch.ones(4, 4)"))
    assert caught.value.lacking == f"torch {timing.start()['torch']} has no {missing}"
    assert caught.value.kind == "raised", "for who runs a statement here, it is an exception"


@pytest.mark.parametrize(
    "stmt", ["x.sum(no_such=1)", "no_such", "import no_such", "1 / 0", "object().torch"]
)
def test_a_mistake_is_nothing_that_torch_lacks(timing: Zygote, stmt: str) -> None:
    with pytest.raises(CaseFailedError) as caught:
        timing.run(case(stmt, "x = torch.ones(4, 4)"))
    assert caught.value.lacking == ""


def test_an_operator_that_an_old_torch_lacks_is_said(timing: Zygote) -> None:
    call = text("aten._fused_adamw_.default")
    recipe = {"text": {"kind": "json", "value": call}}
    with pytest.raises(CaseFailedError, match=r"torch 1\.\S+ has no operator aten._fused_adamw_"):
        timing.run(PythonCase(stmt="pass", setup=REPLAY, globals=recipe))
    replay = replay_in_order(
        timing, [call, text("aten.neg.default", tensor(9))], [0, 1], limits=QUICK
    )
    (left_out,) = replay.left_out
    assert (len(replay.seconds), left_out.number, left_out.is_unsupported) == (1, 0, True)
    assert re.match(r"torch 1\.\S+ has no operator aten._fused_adamw_", left_out.reason)
