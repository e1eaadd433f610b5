"""Execution traces: real ones of torch's own observer, against what a dispatch mode sees."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from torch import distributed, nn
from torch.profiler import ExecutionTraceObserver
from torch.utils._python_dispatch import TorchDispatchMode

import torchmark
from scripts.composite_operators import composite_operators
from tests.engine.test_old_torch import OLD_PYTHON
from tests.record_checks import move_to_meta
from torchmark.capture.traces.chakra import composite_operators as listed_operators
from torchmark.capture.traces.chakra import read_chakra
from torchmark.capture.traces.chakra_values import parse_schema
from torchmark.capture.traces.loading import load_trace
from torchmark.capture.traces.signatures import signature_of
from torchmark.define.recorded import call_text
from torchmark.errors import TraceFileError
from torchmark_probe.replay.calls import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.model.trace import Trace


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """How often each operator comes to where a capture sees it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Model(nn.Module):
    """What has composite operators of many kinds in it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, image: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        seen = self.norm(self.conv(image)).relu().mean((2, 3))
        mixed = nn.functional.dropout(seen + self.embedding(words).sum(1), 0.5)
        return cast("torch.Tensor", self.head(mixed))


@pytest.fixture(scope="module")
def step() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    image, words, target = torch.randn(2, 3, 8, 8), torch.tensor([[1, 2], [3, 4]]), torch.ones(2, 2)

    def run() -> None:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(image, words), target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    run()  # makes the optimizer's state, and caches
    return run


def observed(path: Path, *actions: Callable[[], object]) -> Path:
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    try:
        for action in actions:
            action()
    finally:
        observer.stop()
        observer.unregister_callback()
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, step: Callable[[], None]) -> Path:
    return observed(tmp_path_factory.mktemp("chakra") / "trace.json", step, step, step)


@pytest.fixture(scope="module")
def trace(file: Path) -> Trace:
    return load_trace(file)


def operators_of(trace: Trace) -> Counter[str]:
    counts: Counter[str] = Counter()
    for number, count in trace.counts_by_call().items():
        counts[trace.calls[number].op] += count
    return counts


_OF_THE_MODE = ("aten.detach.default", "profiler.")
"""What a mode itself makes torch do, or sees as an operator and the observer as a range."""


def without_those_of_the_mode(counts: Counter[str]) -> dict[str, int]:
    return {op: count for op, count in counts.items() if not op.startswith(_OF_THE_MODE)}


def test_the_calls_are_those_that_a_capture_sees(trace: Trace, step: Callable[[], None]) -> None:
    with Counting() as mode:
        for _ in range(3):
            step()
    seen = without_those_of_the_mode(operators_of(trace))
    assert sum(seen.values()) > 200
    assert seen == without_those_of_the_mode(mode.counts)


def test_steps_phases_and_functions_follow_the_tree(trace: Trace) -> None:
    assert trace.source == "chakra"
    assert sum(each.repeats for each in trace.steps) == 3
    by_op = {
        (trace.calls[call].op, trace.places[place].phase, trace.places[place].function)
        for call, place in trace.counts
    }
    assert ("aten.addmm.default", "forward", "aten::linear") in by_op
    assert ("aten.convolution_backward.default", "backward", None) in by_op
    assert ("aten.addcdiv_.default", "optimizer", None) in by_op
    assert {phase for _, phase, _ in by_op} == {"forward", "backward", "optimizer"}


def test_tensors_keep_their_layout_and_what_they_share(tmp_path: Path) -> None:
    x = torch.randn(4, 6)
    columns = torch.tensor([1])

    def use() -> None:
        torch.add(x[1:, 2:], x[1:, 2:], alpha=0.5)
        torch.full((2,), float("-inf"), dtype=torch.float16)
        x[:, columns]
        torch.div(x, x, rounding_mode="floor")
        torch.empty(1, 2, 3, 4, memory_format=torch.channels_last)

    trace = read_chakra(observed(tmp_path / "trace.json", use))
    calls = {call.op: call for call in trace.calls}
    add = calls["aten.add.Tensor"]
    view = {"shape": [3, 4], "dtype": "float32", "strides": [6, 1], "offset": 8, "storage": 0}
    assert add.args == ({"tensor": view}, {"tensor": view})
    assert add.kwargs == {"alpha": 0.5}
    assert add.outputs == {"tensor": {"shape": [3, 4], "dtype": "float32", "storage": 1}}
    full = calls["aten.full.default"]
    assert full.args == ([2], {"float": "-inf"})
    assert full.kwargs["dtype"] == {"dtype": "float16"}
    indices = calls["aten.index.Tensor"].args[1]
    assert indices[0] is None
    assert indices[1]["tensor"]["dtype"] == "int64"
    assert calls["aten.div.Tensor_mode"].kwargs == {"rounding_mode": "floor"}
    memory_format = calls["aten.empty.memory_format"].kwargs["memory_format"]
    assert memory_format == {"memory_format": "channels_last"}


def test_the_calls_can_be_made_again(trace: Trace) -> None:
    failed = []
    for call in trace.calls:
        op, args, kwargs = rebuild(move_to_meta(call_text(call)))
        try:
            op(*args, **kwargs)
        except Exception as error:
            failed.append((call.op, signature_of(call), str(error)[:80]))
    # What reads a number out of a tensor has none on meta.
    assert {op for op, _, _ in failed} <= {"aten._local_scalar_dense.default"}, failed


def test_a_packed_file_is_the_same(file: Path, trace: Trace, tmp_path: Path) -> None:
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert load_trace(packed) == trace


def test_a_file_that_is_cut_off_is_read_up_to_there(
    file: Path, trace: Trace, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.json"
    content = file.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    half = load_trace(cut)
    assert 0 < sum(half.counts.values()) < sum(trace.counts.values())
    assert any("where the file is cut off" in text for text in half.unseen)
    packed = tmp_path / "cut.json.gz"
    packed.write_bytes(gzip.compress(content)[:20_000])
    assert any("where the file is cut off" in text for text in load_trace(packed).unseen)


def test_a_range_whose_name_makes_its_node_no_json_is_left_out(tmp_path: Path) -> None:
    def use() -> None:
        with torch.profiler.record_function('a "quoted" name'):
            torch.ones(3).neg()

    trace = load_trace(observed(tmp_path / "trace.json", use))
    assert operators_of(trace) == {"aten.ones.default": 1, "aten.neg.default": 1}
    assert "1 nodes of the file that are not valid JSON" in trace.unseen


def made_up(folder: Path, *nodes: dict[str, Any]) -> Path:
    path = folder / "made_up.json"
    path.write_text(json.dumps({"schema": "1.1.1", "nodes": list(nodes)}))
    return path


def node(number: int, parent: int, name: str, schema: str = "") -> dict[str, Any]:
    nothing: dict[str, Any] = {"values": [], "shapes": [], "types": [], "strides": []}
    attrs = [{"name": "op_schema", "type": "string", "value": schema}]
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": nothing,
            "outputs": nothing, "attrs": attrs}  # fmt: skip


def test_a_tree_that_goes_in_circles_or_very_deep_comes_to_an_end(tmp_path: Path) -> None:
    circle = [node(1, 2, "a"), node(2, 1, "b"), node(3, 3, "c", "aten::seed() -> int")]
    assert operators_of(read_chakra(made_up(tmp_path, *circle))) == {"aten.seed.default": 1}
    deep = [node(n, n - 1, "range") for n in range(1, 20_000)]
    deep.append(node(20_000, 19_999, "aten::seed", "aten::seed() -> int"))
    assert operators_of(read_chakra(made_up(tmp_path, *deep))) == {"aten.seed.default": 1}


def test_a_node_whose_inputs_do_not_fit_its_schema_is_refused(tmp_path: Path) -> None:
    path = made_up(tmp_path, node(7, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor"))
    with pytest.raises(TraceFileError, match=r"node 7 has 0 inputs for 1 arguments of aten\.relu"):
        read_chakra(path)


def test_a_form_without_strides_is_read_and_says_so(
    file: Path, trace: Trace, tmp_path: Path
) -> None:
    content = json.loads(file.read_text()) | {"schema": "1.0.3-chakra.0.0.4"}
    for each in content["nodes"]:
        del each["inputs"]["strides"], each["outputs"]["strides"]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(content))
    early = load_trace(path)
    assert operators_of(early) == operators_of(trace)
    assert early.counts_by_phase() == trace.counts_by_phase()
    assert "strides" not in json.dumps([call.to_record() for call in early.calls])
    assert any("all tensors count as contiguous" in text for text in early.unseen)
    assert not any("contiguous" in text for text in trace.unseen)


_OLD_STEP = """
import sys, torch
from torch.profiler import ExecutionGraphObserver
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
observer = ExecutionGraphObserver()
observer.register_callback(sys.argv[1])
observer.start()
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
observer.stop()
observer.unregister_callback()
"""


def test_the_first_form_is_read_as_torch_1_13_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    command = [OLD_PYTHON, "-c", _OLD_STEP, str(path)]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
    assert '"schema": "1.0.1"' in path.read_text()
    trace = load_trace(path)
    assert sum(each.repeats for each in trace.steps) == 3
    counts = operators_of(trace)
    assert (counts["aten.addmm.default"], counts["aten.mm.default"]) == (6, 9)
    assert set(trace.counts_by_phase()) == {"forward", "backward", "optimizer"}
    product = next(call for call in trace.calls if call.op == "aten.addmm.default")
    assert signature_of(product).startswith("float32[8], float32[3, 4], float32[4, 8]")
    assert not any("not valid JSON" in text for text in trace.unseen)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trace.et", b"\x00"),
        ("trace", b"\x07\x0a\x050.0.4\x12"),
        ("trace", b"\x1e\x12\x1c\x0a\x06schema2\x121.0.2-chakra.0.0.4"),
    ],
)
def test_the_form_of_mlcommons_is_refused_with_what_to_do(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceFileError, match=r"MLCommons.*ExecutionTraceObserver or chakra_trace"):
        load_trace(tmp_path / name)


def test_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schema": "2.0.0", "nodes": []}))
    said = r"version '2.0.0'; torchmark reads versions 1.0.x and 1.1.x"
    with pytest.raises(TraceFileError, match=said):
        load_trace(path)
    path.write_text(json.dumps({"schema": "1.1.1", "pid": 4}))
    with pytest.raises(TraceFileError, match="it has no list of nodes"):
        load_trace(path)


def phases_of(trace: Trace) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for (call, place), count in trace.counts.items():
        counts[trace.calls[call].op, trace.places[place].phase] += count
    # The observer sees what `backward` begins with and not that it is in there.
    return Counter({each: count for each, count in counts.items() if "ones_like" not in each[0]})


def test_what_ddp_does_with_gradients_is_of_the_backward_pass(tmp_path: Path) -> None:
    place = f"file://{tmp_path / 'group'}"
    distributed.init_process_group("gloo", init_method=place, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train() -> None:
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(3, 4)).sum().backward()
                optimizer.step()

        train()
        seen = phases_of(load_trace(observed(tmp_path / "trace.json", train)))
        with torchmark.Capture() as capture:
            train()
    finally:
        distributed.destroy_process_group()
    assert seen["aten.copy_.default", "backward"] >= 6
    assert seen["aten.as_strided.default", "backward"] == 6
    assert seen == phases_of(capture.trace())


def test_all_that_a_thread_of_the_engine_does_is_of_the_backward_pass(tmp_path: Path) -> None:
    thread, seed = "[pytorch|profiler|execution_trace|thread]", "aten::seed() -> int"
    path = made_up(
        tmp_path,
        node(2, 1, thread),
        node(3, 2, "aten::seed", seed),
        node(4, 1, thread),
        node(5, 4, "autograd::engine::evaluate_function: MmBackward0"),
        node(6, 5, "aten::seed", seed),
        node(7, 4, "aten::seed", seed),
        node(8, 2, "aten::seed", seed),
    )
    assert read_chakra(path).counts_by_phase() == {"forward": 2, "backward": 2}


def test_gradients_are_added_up_out_of_place_while_somebody_listens(tmp_path: Path) -> None:
    """As docs/guides/find-slow-operator.md says, and nothing else differs in number."""
    weight = torch.ones(3, 3, requires_grad=True)

    def use() -> None:
        x = torch.ones(3, 3)
        for _ in range(5):
            x = x.mm(weight)
        x.sum().backward()  # type: ignore[no-untyped-call]

    use()  # from here on there is a gradient, to which the next is added
    plain = phases_of(load_trace(observed(tmp_path / "trace.json", use)))
    with torchmark.Capture() as capture:
        use()
    captured = phases_of(capture.trace())
    adds = [
        (each["aten.add.Tensor", "backward"], each["aten.add_.Tensor", "backward"])
        for each in (plain, captured)
    ]
    assert adds == [(0, 5), (4, 1)], "into .grad both add in place"
    for each in (plain, captured):
        del each["aten.add.Tensor", "backward"], each["aten.add_.Tensor", "backward"]
    assert plain == captured


def test_every_schema_of_torch_is_understood() -> None:
    wrong = []
    for schema in torch._C._jit_get_all_schemas():
        read = parse_schema(str(schema))
        names = [argument.name for argument in schema.arguments]
        if read is None or [argument.name for argument in read.arguments] != names:
            wrong.append(str(schema))
    assert [text for text in wrong if text.startswith("aten::") and "...)" not in text] == []


def test_the_list_of_composite_operators_is_that_of_this_torch() -> None:
    assert listed_operators() == set(composite_operators())
