"""`torchmark.Capture` on small programs: what it records, and that it disturbs nothing."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optimizers
from torch.utils import _python_dispatch as dispatch
from torch.utils._pytree import tree_flatten

import torchmark
from tests.capture.programs import PROGRAMS, CountingCalls, inference_of_a_transformer
from torchmark.capture.traces.loading import load_trace
from torchmark.errors import (
    CaptureError,
    InvalidArgumentError,
    MissingToolError,
    TraceWriteError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.model.trace import PlainSteps, RecordedCall, Trace


MODEL = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.1)


def trained(
    steps: int, model: nn.Module = MODEL, optimizer: torch.optim.Optimizer = OPTIMIZER
) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()


def captured(program: Callable[[], Any]) -> Trace:
    with torchmark.Capture() as trace:
        program()
    return trace.trace()


def only_call(op: str, program: Callable[[], Any]) -> RecordedCall:
    (call,) = [call for call in captured(program).calls if call.op == op]
    return call


def global_state() -> dict[str, Any]:
    """All that a capture touches."""
    return {
        "hooks": [
            len(hooks)
            for hooks in (
                nn_module._global_forward_hooks,
                nn_module._global_forward_pre_hooks,
                nn_module._global_forward_hooks_always_called,
                optimizers._global_optimizer_pre_hooks,
                optimizers._global_optimizer_post_hooks,
            )
        ],
        "modes": (torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()),
        "flags": (
            dispatch._is_in_torch_dispatch_mode,
            dispatch._is_in_non_infra_torch_dispatch_mode,
            dispatch._is_in_any_mode_without_ignore_compile_internals,
        ),
        "patched": (
            threading.Thread.start,
            BaseProcess.start,
            os.fork,
            nn_module._has_any_global_hook,
            torch._C._dynamo.eval_frame.set_eval_frame,
            vars(torch._dynamo.eval_frame)["set_eval_frame"],
            torch._dynamo.eval_frame._maybe_set_eval_frame,
            nn.Module.__call__,
            sys.gettrace(),
            sys.getprofile(),
        ),
        "numbers": (torch.is_grad_enabled(), torch.get_default_dtype(), list(warnings.filters)),
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
def test_a_program_computes_the_same_under_capture(program: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    expected, _ = tree_flatten(program())
    before = global_state()
    torch.manual_seed(0)
    with torchmark.Capture(values=True) as trace:
        found, _ = tree_flatten(program())
    assert global_state() == before
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    record = trace.trace()
    assert record.calls
    assert not [sentence for sentence in record.unseen if "could not be described" in sentence]
    json.dumps([[call.args, call.kwargs, call.outputs] for call in record.calls], allow_nan=False)


def test_every_call_that_the_dispatcher_makes_is_recorded() -> None:
    with CountingCalls() as counting:
        trained(3)
    trace = captured(lambda: trained(3))
    found: Counter[str] = Counter()
    for call, count in trace.counts_by_call().items():
        found[trace.calls[call].op] += count
    # Not calls of the dispatcher: marks for the profiler, and copies of a tensor's frame.
    expected = {
        op: count
        for op, count in counting.by_op.items()
        if not op.startswith("profiler.") and op != "aten.detach.default"
    }
    del found["aten.detach.default"]
    assert found == expected


def test_modules_functions_and_phases_are_labels() -> None:
    trace = captured(lambda: trained(1))
    places = {
        (trace.calls[call].op, place.phase, place.module, place.function)
        for (call, number) in trace.counts
        for place in [trace.places[number]]
    }
    assert ("aten.addmm.default", "forward", "2", "torch.nn.functional.linear") in places
    assert ("aten.relu.default", "forward", "1", "torch.nn.functional.relu") in places
    assert ("aten.sum.default", "forward", None, "torch.Tensor.sum") in places
    assert ("aten.mm.default", "backward", "0", "torch.Tensor.backward") in places
    assert ("aten.threshold_backward.default", "backward", "1", "torch.Tensor.backward") in places
    assert ("aten.ones_like.default", "backward", None, "torch.Tensor.backward") in places
    assert ("aten.add_.Tensor", "optimizer", None, "torch.optim.SGD.step") in places


def test_functions_are_remembered_when_nobody_asks_for_them_any_more() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    depths = []
    with torchmark.Capture() as trace:
        for _ in range(6):
            optimizer.zero_grad()
            depths.append(torch._C._len_torch_function_stack())
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert (depths[0], depths[-1]) == (1, 0)
    record = trace.trace()
    first, last = record.steps[0], record.steps[-1]
    assert {record.places[place].function for place in last.places} >= {
        "torch.nn.functional.linear", "torch.Tensor.sum", "torch.Tensor.backward",
    }  # fmt: skip
    assert (last.calls[-20:], last.places[-20:]) == (first.calls[-20:], first.places[-20:])


def test_a_module_that_is_not_registered_has_its_class_for_a_name() -> None:
    hidden = [nn.Linear(4, 4)]

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return hidden[0](x)  # type: ignore[no-any-return]

    modules = {place.module for place in captured(lambda: Model()(torch.ones(2, 4))).places}
    assert "<Linear>" in modules


def test_a_recomputed_forward_belongs_to_the_backward_pass() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def program() -> None:
        x = torch.ones(2, 4, requires_grad=True)
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()

    trace = captured(program)
    addmm = [n for n, call in enumerate(trace.calls) if call.op == "aten.addmm.default"]
    phases = {trace.places[place].phase for call, place in trace.counts if call in addmm}
    modules = {trace.places[place].module for call, place in trace.counts if call in addmm}
    assert phases == {"forward", "backward"}
    assert modules == {"0"}


def test_inference_keeps_its_fused_operators() -> None:
    ops = [call.op for call in captured(inference_of_a_transformer).calls]
    assert "aten._transformer_encoder_layer_fwd.default" in ops


def test_scalars_of_different_types_are_different_calls() -> None:
    x = torch.ones(2)
    trace = captured(
        lambda: [x.mul(number) for number in (1, 1.0, True, 1, float("nan"), float("nan"))]
    )
    seconds = [call.args[1] for call in trace.calls]
    assert [(type(value), value) for value in seconds] == [
        (int, 1),
        (float, 1.0),
        (bool, True),
        (dict, {"float": "nan"}),
    ]
    assert sum(trace.counts.values()) == 6


def test_tensors_that_differ_in_one_property_are_different_calls() -> None:
    base = torch.ones(4, 4)
    alike = [
        base[:2, :2],
        base[1:3, :2],
        torch.ones(2, 2),
        torch.ones(2, 2).t(),
        torch.ones(2, 2, dtype=torch.float64),
        torch.ones(2, 2, requires_grad=True),
        nn.Parameter(torch.ones(2, 2)),
        torch.ones(2, 2, device="meta"),
        torch.ones(2, 2).to_sparse(),
    ]
    trace = captured(lambda: [tensor.detach() for tensor in [*alike, *alike]])
    assert len(trace.calls) == len(alike)
    assert sum(trace.counts.values()) == 2 * len(alike)


def test_sharing_of_memory_makes_a_different_call() -> None:
    a, b = torch.ones(2), torch.ones(2)
    trace = captured(lambda: [a + b, a + a, b + b])
    apart, shared = [[arg["tensor"] for arg in call.args] for call in trace.calls]
    assert [tensor.get("storage") for tensor in apart] == [None, None]
    assert [tensor["storage"] for tensor in shared] == [0, 0]


def test_a_view_and_an_operator_in_place_share_storage_with_their_input() -> None:
    base = torch.zeros(3, 4)
    view = only_call("aten.select.int", lambda: base[1])
    assert view.outputs["tensor"]["storage"] == view.args[0]["tensor"]["storage"]
    assert view.outputs["tensor"]["offset"] == 4
    assert view.outputs["tensor"]["storage_bytes"] == 48
    in_place = only_call("aten.add_.Tensor", lambda: base.add_(1))
    assert in_place.outputs["tensor"]["storage"] == in_place.args[0]["tensor"]["storage"]
    assert in_place.args[0]["tensor"]["values"] == {"min": 0.0, "max": 0.0}


def test_what_integers_booleans_and_floats_contain() -> None:
    def values(tensor: torch.Tensor) -> Any:
        call = only_call("aten.clone.default", tensor.clone)
        return call.args[0]["tensor"]["values"]

    assert values(torch.tensor([0, 2, 2, 5])) == {
        "min": 0,
        "max": 5,
        "sum": 9,
        "distinct": 3,
        "order": "ascending",
        "offsets": True,
        "list": [0, 2, 2, 5],
    }
    assert values(torch.tensor([[5, 1], [0, 0]]))["order"] == "descending"
    assert values(torch.arange(100) % 7)["order"] == "none"
    assert "list" not in values(torch.arange(65))
    assert values(torch.tensor([True, False])) == {"true": 1, "list": [True, False]}
    odd = values(torch.tensor([[1.0, float("inf")], [float("inf"), 2.0]]))
    assert odd == {"min": 1.0, "max": 2.0, "nonfinite": True, "symmetric": True}


@pytest.mark.parametrize(("ignored", "classes"), [(-100, 30_000), (255, 150), (255, 19)])
def test_the_label_that_a_loss_ignores_is_told_from_the_classes(ignored: int, classes: int) -> None:
    """As in BERT, ADE20K and Cityscapes."""
    labels = torch.randint(0, classes, (3000,), generator=torch.Generator().manual_seed(1))
    classes_seen = [int(labels.min()), int(labels.max())]
    labels[:1000] = ignored
    (argument,) = only_call("aten.clone.default", labels.clone).args[:1]
    values = argument["tensor"]["values"]
    assert values["apart"] == [[ignored, 1000]]
    assert classes_seen[0] <= values["rest"][0] <= values["rest"][1] <= classes_seen[1]


def test_random_integers_have_no_values_apart() -> None:
    drawn = torch.randint(-500, 500, (1000,), generator=torch.Generator().manual_seed(1))
    (argument,) = only_call("aten.clone.default", drawn.clone).args[:1]
    assert "apart" not in argument["tensor"]["values"]


def test_a_sparse_tensor_is_described_by_its_parts() -> None:
    sparse = torch.eye(2).to_sparse()
    (argument,) = only_call("aten._to_dense.default", sparse.to_dense).args[:1]
    tensor = argument["tensor"]
    assert (tensor["layout"], tensor["coalesced"]) == ("sparse_coo", True)
    assert tensor["parts"]["indices"]["tensor"]["values"]["list"] == [0, 1, 0, 1]
    assert tensor["parts"]["values"]["tensor"]["shape"] == [2]


def test_a_trace_with_a_sparse_tensor_is_read_back(tmp_path: Path) -> None:
    sparse = torch.eye(2).to_sparse()
    with torchmark.Capture(tmp_path / "t.jsonl") as trace:
        sparse.to_dense()
    assert load_trace(tmp_path / "t.jsonl").calls == trace.trace().calls


def test_shapes_that_contents_decide_make_different_calls() -> None:
    trace = captured(
        lambda: [torch.tensor(mask).nonzero() for mask in ([1, 0], [1, 1], [0, 1], [1, 0])]
    )
    shapes = [
        call.outputs["tensor"]["shape"] for call in trace.calls if call.op == "aten.nonzero.default"
    ]
    assert shapes == [[1, 1], [2, 1]]


def test_numbers_that_change_in_every_step_do_not_fill_the_trace() -> None:
    x = torch.zeros(3)
    trace = captured(lambda: [x.add(number / 7) for number in range(1000)])
    assert len(trace.calls) == 8
    assert sum(trace.counts.values()) == 1000
    assert any("some floats of aten.add.Tensor, which change" in said for said in trace.unseen)


def test_a_step_ends_with_the_optimizer() -> None:
    (step,) = captured(lambda: trained(5)).steps
    assert step.repeats == 5


def test_the_first_step_may_be_the_only_one_and_the_rest_is_one_too() -> None:
    def program() -> None:
        trained(1)
        torch.ones(3)

    first, rest = captured(program).steps
    assert first.repeats == rest.repeats == 1
    assert len(rest.calls) == 1


def test_all_optimizers_of_an_iteration_belong_to_one_step() -> None:
    a, b = nn.Linear(2, 2), nn.Linear(3, 3)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (a, b)]

    def program() -> None:
        for _ in range(4):
            for model, optimizer in zip((a, b), optimizers, strict=True):
                optimizer.zero_grad()
                model(torch.ones(1, model.in_features)).sum().backward()
                optimizer.step()

    assert [step.repeats for step in captured(program).steps] == [4]


def test_a_step_ends_where_the_user_says() -> None:
    with torchmark.Capture() as trace:
        for _ in range(3):
            trained(1)
            trace.step()
    assert [step.repeats for step in trace.trace().steps] == [3]


def test_after_so_many_steps_nothing_is_left_of_the_capture() -> None:
    before = global_state()
    with torchmark.Capture(steps=2) as trace:
        trained(2)
        after = global_state()
        trained(3)
    assert after["modes"] == before["modes"]
    assert after["patched"] == before["patched"]
    assert after["hooks"][:3] == before["hooks"][:3]
    assert global_state() == before
    assert [step.repeats for step in trace.trace().steps] == [2]


def plain_of(trace: Trace) -> PlainSteps:
    assert trace.plain_steps is not None
    return trace.plain_steps


def test_the_steps_after_the_captured_ones_are_timed_up_to_ten(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl.gz"
    with torchmark.Capture(file, steps=2) as trace:
        trained(2)
        assert plain_of(trace.trace()).seconds == (), "those that are captured are not plain"
        trained(3)
        assert len(plain_of(trace.trace()).seconds) == 3
        trained(9)
        assert len(plain_of(load_trace(file)).seconds) == 10, "while the training goes on"
        trained(1)
    plain = plain_of(trace.trace())
    assert (len(plain.seconds), len(plain.running)) == (10, 10)
    assert plain.threads == torch.get_num_threads()
    assert [step.repeats for step in trace.trace().steps] == [2]
    assert plain_of(load_trace(file)) == plain
    trace.save(tmp_path / "again.jsonl")
    assert plain_of(load_trace(tmp_path / "again.jsonl")) == plain


def test_a_plain_step_ends_where_the_user_says_too() -> None:
    with torchmark.Capture(steps=1) as trace:
        for _ in range(4):
            torch.ones(3)
            trace.step()
    assert len(plain_of(trace.trace()).seconds) == 3


def test_a_plain_step_has_all_optimizers_of_an_iteration() -> None:
    other = torch.optim.SGD(MODEL.parameters(), lr=0.1)
    with torchmark.Capture(steps=1) as trace:
        for _ in range(4):
            trained(1)
            trained(1, optimizer=other)
    # The first step is over where the second one shows it: that one is not plain.
    assert len(plain_of(trace.trace()).seconds) == 3


def test_without_a_step_after_the_captured_ones_none_is_timed(tmp_path: Path) -> None:
    with torchmark.Capture(tmp_path / "t.jsonl") as trace:
        trained(3)
    assert plain_of(trace.trace()).seconds == ()
    assert plain_of(load_trace(tmp_path / "t.jsonl")).threads == torch.get_num_threads()


def test_steps_that_another_mode_keeps_slow_are_not_timed() -> None:
    with torchmark.Capture(steps=1) as trace, CountingCalls():
        trained(5)
    assert plain_of(trace.trace()).seconds == ()


def test_one_step_alone_can_be_captured() -> None:
    with torchmark.Capture(steps=1) as trace:
        trained(4)
    (step,) = trace.trace().steps
    assert step.repeats == 1
    assert {place.phase for place in trace.trace().places} == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind_and_keeps_the_record(error: type[BaseException]) -> None:
    before = global_state()
    capture = torchmark.Capture()
    with contextlib.suppress(error), capture:
        trained(2)
        raise error
    assert global_state() == before
    assert capture.trace().steps[0].repeats == 2


def test_captures_do_not_nest_and_are_used_once() -> None:
    with torchmark.Capture() as outer:
        with pytest.raises(CaptureError, match="already running"), torchmark.Capture():
            pass
        torch.ones(3)
    assert len(outer.trace().calls) == 1
    with pytest.raises(CaptureError, match="used before"), outer:
        pass
    with pytest.raises(InvalidArgumentError, match="steps must be at least 1, not 0"):
        torchmark.Capture(steps=0)


def test_threads_have_numbers_and_those_from_before_are_told_of() -> None:
    ready, go = threading.Event(), threading.Event()

    def from_before() -> None:
        ready.set()
        go.wait()
        nn.Linear(2, 2)(torch.ones(1, 2))

    early = threading.Thread(target=from_before, name="early bird")
    early.start()
    ready.wait()
    with torchmark.Capture() as trace:
        torch.ones(2)
        late = threading.Thread(target=lambda: torch.ones(3))
        late.start()
        late.join()
        go.set()
        early.join()
    record = trace.trace()
    assert [place.thread for place in record.places] == [0, 1]
    assert any("modules in thread 'early bird'" in said for said in record.unseen)
    assert "run" not in vars(late)


def test_worker_processes_are_counted_and_do_not_write(tmp_path: Path) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    with torchmark.Capture(tmp_path / "t.jsonl") as trace:
        batches = list(torch.utils.data.DataLoader(data, 2, num_workers=1))
        child = os.fork()
        if child == 0:
            torch.ones(5)
            try:
                trace.step()
                trace.__exit__()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert len(batches) == 2
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [next(iter(json.loads(line))) for line in lines].count("end") == 1
    unseen = json.loads(lines[-1])["end"]["unseen"]
    assert "the calls of worker processes of a DataLoader (1)" in unseen
    assert "the calls of forked processes (1)" in unseen


@pytest.mark.filterwarnings("ignore")  # the compiler's own, of what it looks at
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_stays_compiled(backend: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.second(x)  # type: ignore[no-any-return]

    def compiled_frames(*, capture_first: bool, capture_second: bool) -> list[Any]:
        torch._dynamo.reset()
        counters = torch._dynamo.utils.counters
        counters.clear()
        model = Model()
        compiled: Any = torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        for capture in (capture_first, capture_second, False):
            with torchmark.Capture() if capture else contextlib.nullcontext():
                trained(2, compiled, optimizer)
            seen.append((dict(counters["frames"]), dict(counters["stats"])))
        return seen

    plain = compiled_frames(capture_first=False, capture_second=False)
    assert plain[0][1]["unique_graphs"] == 2
    assert compiled_frames(capture_first=True, capture_second=False) == plain
    assert compiled_frames(capture_first=False, capture_second=True) == plain
    torch._dynamo.reset()


def lines_of(path: Path) -> list[Any]:
    content = path.read_bytes()
    return [json.loads(line) for line in gzip.decompress(content).splitlines()]


def test_the_file_is_written_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with torchmark.Capture(path) as trace:
        trained(3)
        kinds = Counter(next(iter(json.loads(line))) for line in path.read_text().splitlines())
        assert (kinds["step"], kinds["again"]) == (1, 2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["trace"]["source"] == "capture"
    assert lines[-1]["end"]["steps"] == 3
    assert lines[-1]["end"]["calls"] == sum(trace.trace().counts.values())
    assert kinds["call"] == len(trace.trace().calls)


def test_a_trace_that_was_in_memory_is_saved(tmp_path: Path) -> None:
    with torchmark.Capture() as trace:
        trained(3)
    trace.save(tmp_path / "t.jsonl.gz")
    steps = [line["step"] for line in lines_of(tmp_path / "t.jsonl.gz") if "step" in line]
    assert [step["repeats"] for step in steps] == [3]


def test_exact_values_are_beside_the_trace(tmp_path: Path) -> None:
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    before = x.clone()
    with torchmark.Capture(tmp_path / "t.jsonl.gz", values=True):
        x.add_(y.t())
    calls = [line["call"] for line in lines_of(tmp_path / "t.jsonl.gz") if "call" in line]
    contents = load_file(tmp_path / "t.safetensors")
    (add,) = [call for call in calls if call["op"] == "aten.add_.Tensor"]
    names = [argument["tensor"]["exact"] for argument in add["args"][:2]]
    assert names == ["1.0", "1.1"]
    assert torch.equal(contents["1.0"], before)
    assert torch.equal(contents["1.1"], y.t())


def test_without_safetensors_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(MissingToolError, match=r"pip install 'torchmark\[capture\]'"):
        torchmark.Capture(values=True).__enter__()


def test_a_file_that_cannot_be_opened_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(TraceWriteError):
        torchmark.Capture(tmp_path / "nowhere" / "t.jsonl").__enter__()
    trained(1)


def test_a_full_disk_costs_the_file_and_not_the_training(tmp_path: Path) -> None:
    capture = torchmark.Capture(tmp_path / "t.jsonl").__enter__()
    trained(1)
    assert capture._file is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, capture._file._raw.fileno())
    os.close(full)
    trained(3)
    with pytest.warns(UserWarning, match="cannot be written"):
        capture.__exit__()
    record = capture.trace()
    assert sum(step.repeats for step in record.steps) == 4
    assert any("cannot be written" in said for said in record.unseen)


def test_a_failing_recorder_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("torchmark.capture.calls.key_of", broken)
    with torchmark.Capture() as trace:
        trained(1)
    assert any("a bug of ours" in said for said in trace.trace().unseen)


def test_importing_torchmark_does_not_import_torch() -> None:
    code = (
        "import sys, torchmark, torchmark.capture.traces.loading; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
