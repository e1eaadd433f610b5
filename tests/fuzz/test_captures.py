"""Whatever capture writes, reading accepts and says the same, for every kind of argument.

One operator takes a bit of everything that a schema can name. It is called under a capture that
writes a file; the file is read, and each value in it is compared with what was handed over.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchmark
from tests.fuzz.mutations import fuzz
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import plan_replay
from torchmark_probe.replay.records import argument, tensor_records
from torchmark_probe.replay.tensors import Described, describe_tensors

# torch warns of kinds of tensors that are young, or old.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

_LIBRARY: Any = torch.library.Library("torchmark_fuzz", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(
    "take(Tensor?[] tensors, *, Scalar? number=None, Scalar[]? numbers=None, SymInt[]? sizes=None, "
    "int[]? ints=None, float[]? floats=None, bool[]? flags=None, complex? z=None, str? text=None, "
    "str[]? texts=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "MemoryFormat? form=None, Generator? generator=None) -> Tensor?[]"
)


def take(tensors: list[Any], **_: Any) -> list[Any]:
    return [*tensors[1:], None]


_LIBRARY.impl("take", take, "CompositeExplicitAutograd")


def of_torch(kind: type) -> list[Any]:
    return list(dict.fromkeys(each for each in vars(torch).values() if isinstance(each, kind)))


DTYPES = of_torch(torch.dtype)
DEVICES = ["cpu", "cuda", "cuda:7", "meta", "xpu:3", "mps", "privateuseone:1", "xla:11"]

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats()  # infinities and nan are among them
NUMBERS = st.one_of(INTS, FLOATS, st.booleans(), st.complex_numbers())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # the dispatcher takes UTF-8 alone


class Plain(torch.Tensor):
    """Computes as every tensor does, and does not turn results into its kind."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class Wrapper(torch.Tensor):
    """Computes in its own way."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return made

    @classmethod
    def __torch_dispatch__(cls, _func: Any, *given: Any) -> Any:
        return take(*given[1])


class Strided(NamedTuple):
    """Of any dtype and device that is here: expanded, transposed, cut, conjugate, needing grad."""

    dtype: torch.dtype
    device: str
    shape: list[int]
    special: float
    changes: list[str]

    def make(self) -> torch.Tensor:
        made = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        with contextlib.suppress(RuntimeError, NotImplementedError):  # some cannot be filled
            made.fill_(self.special if self.dtype.is_floating_point else 1)
        for change in self.changes:
            with contextlib.suppress(RuntimeError, NotImplementedError, IndexError):
                made = CHANGES[change](made)
        return made


CHANGES: dict[str, Any] = {
    "transpose": lambda x: x.transpose(0, -1),
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape),
    "cut": lambda x: x[1:],
    "every second": lambda x: x[..., ::2],
    "conj": torch.conj,
    "neg": lambda x: x.conj().imag,
    "grad": lambda x: x.requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x, requires_grad=x.is_floating_point()),
    "subclass": lambda x: x.as_subclass(Plain),
    "scalar": torch.sum,
}


class Other(NamedTuple):
    """Of another layout, or what a trace keeps by its type alone."""

    kind: str
    dtype: torch.dtype
    elements: list[int]

    def make(self) -> torch.Tensor:
        made: torch.Tensor = OTHERS[self.kind](
            torch.tensor(self.elements, dtype=self.dtype).reshape(4, 4)
        )
        return made


OTHERS: dict[str, Any] = {
    "coo": torch.Tensor.to_sparse,
    "hybrid": lambda x: x.to_sparse(1),
    "not coalesced": lambda x: torch.sparse_coo_tensor(
        torch.tensor([[0, 0], [1, 1]]), x[0, :2], (3, 3)
    ),
    "empty coo": lambda x: torch.empty(0, 3, dtype=x.dtype).to_sparse(),
    "meta coo": lambda x: torch.empty(4, 4, dtype=x.dtype, device="meta", layout=torch.sparse_coo),
    "csr": torch.Tensor.to_sparse_csr,
    "csc": torch.Tensor.to_sparse_csc,
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 1)),
    # Empty ones: what fills them does not run on every processor.
    "qint8": lambda _: torch._empty_affine_quantized((2, 2), dtype=torch.qint8),
    "quint8": lambda _: torch._empty_affine_quantized((2, 2), dtype=torch.quint8),
    "per channel": lambda _: torch._empty_per_channel_affine_quantized(
        (2, 2), scales=torch.ones(2), zero_points=torch.zeros(2), axis=0, dtype=torch.qint32
    ),
    "mkldnn": lambda x: x.real.float().to_mkldnn(),
    "wrapper": Wrapper,
}

STRIDED = st.builds(
    Strided,
    dtype=st.sampled_from([each for each in DTYPES if not str(each).startswith("torch.q")]),
    device=st.sampled_from(["cpu", "cpu", "meta"]),
    shape=st.lists(st.integers(0, 5), max_size=3),
    special=st.sampled_from([0.5, -1e30, math.inf, -math.inf, math.nan]),
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=3),
)
OTHER = st.builds(
    Other,
    kind=st.sampled_from(sorted(OTHERS)),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.complex64]),
    elements=st.lists(st.integers(0, 2), min_size=16, max_size=16),
)
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "number": NUMBERS,
    "numbers": st.lists(NUMBERS, max_size=3),
    "sizes": st.lists(INTS, max_size=3),
    "ints": st.lists(INTS, max_size=3),
    "floats": st.lists(FLOATS, max_size=3),
    "flags": st.lists(st.booleans(), max_size=3),
    "z": st.complex_numbers(),
    "text": TEXTS,
    "texts": st.lists(TEXTS, max_size=3),
    "dtype": st.sampled_from(DTYPES),
    "layout": st.sampled_from(of_torch(torch.layout)),
    "device": st.sampled_from(DEVICES).map(torch.device),
    "form": st.sampled_from(of_torch(torch.memory_format)),
    "generator": st.builds(torch.Generator),
}
CALLS = st.lists(
    st.tuples(
        st.lists(st.one_of(STRIDED, OTHER, st.none()), max_size=4),
        st.fixed_dictionaries({}, optional=KEYWORDS),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captures")


@fuzz
@given(recipes=CALLS, packed=st.booleans())
def test_what_is_captured_is_read_as_it_was(
    folder: Path, recipes: list[tuple[list[Any], dict[str, Any]]], packed: bool
) -> None:
    calls = [([each and each.make() for each in made], given) for made, given in recipes]
    file = folder / ("trace.jsonl.gz" if packed else "trace.jsonl")
    with torchmark.Capture(file) as capture:
        for tensors, keywords in calls:
            torch.ops.torchmark_fuzz.take(tensors, **keywords)
    captured, read = capture.trace(), load_trace(file)
    assert (read.calls, read.places, read.steps) == (
        captured.calls,
        captured.places,
        captured.steps,
    )
    assert read.unseen == captured.unseen
    assert not any("could not be described" in said for said in read.unseen), read.unseen
    plan_replay(read, "trace")
    (step,) = read.steps
    assert len(step.calls) == len(calls)
    for number, (tensors, keywords) in zip(step.calls, calls, strict=True):
        record = json.loads(json.dumps(read.calls[number].to_record()))
        check_tensors(record["args"][0], tensors, read.unseen)
        check_tensors(record["outputs"], [*tensors[1:], None], read.unseen)
        assert set(record["kwargs"]) <= set(keywords), "what is the default may be left out"
        for name, recorded in record["kwargs"].items():
            check_value(recorded, keywords[name])


def check_tensors(recorded: list[Any], tensors: list[Any], unseen: tuple[str, ...]) -> None:
    assert len(recorded) == len(tensors)
    for each, tensor in zip(recorded, tensors, strict=True):
        if tensor is None or "opaque" in each:
            assert (each is None) == (tensor is None)
            assert tensor is None or any(f"have a {each['opaque']}, which" in s for s in unseen)
            continue
        assert not tensor.is_quantized
        assert not isinstance(tensor, Wrapper)
        (described,) = describe_tensors(each)
        check_tensor(described, tensor)


def check_tensor(described: Described, tensor: torch.Tensor) -> None:
    assert (list(described.shape), described.dtype) == (list(tensor.shape), tensor.dtype)
    assert (described.layout, described.device) == (tensor.layout, tensor.device)
    assert described.requires_grad == tensor.requires_grad
    if tensor.layout == torch.sparse_coo:
        assert described.coalesced == tensor.is_coalesced()
        check_tensor(described.parts["indices"], tensor._indices())
        check_tensor(described.parts["values"], tensor._values())
    elif tensor.layout == torch.strided:
        assert list(described.strides) == list(tensor.stride()) or tensor.is_contiguous()
        assert described.offset == tensor.storage_offset()
        assert (described.conj, described.neg) == (tensor.is_conj(), tensor.is_neg())
    else:
        check_tensor(described.parts["values"], tensor.values())


def check_value(recorded: Any, value: Any) -> None:
    if isinstance(value, torch.Generator):
        assert recorded == {"generator": "cpu"}
    elif isinstance(value, torch.device):
        assert recorded == {"device": str(value)}, "it is made on the CPU, and recorded as it was"
    else:
        made = argument(recorded, iter(()))
        assert repr(made) == repr(value), "a nan equals nothing; 1, 1.0 and True are three"


def test_nested_tensors_are_recorded_by_their_type_and_said(folder: Path) -> None:
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=layout)
        with torchmark.Capture(folder / "nested.jsonl") as capture:
            nested.clone()
        read = load_trace(folder / "nested.jsonl")
        assert (read.calls, read.unseen) == (capture.trace().calls, capture.trace().unseen)
        assert not list(tensor_records([*read.calls[0].args]))
        (said,) = (each for each in read.unseen if "nested" in each.lower())
        assert said.endswith("which a trace cannot hold: they cannot be replayed")


@pytest.mark.parametrize("name", ["__call__", "a" * 300])
def test_an_operator_that_no_trace_can_name_is_left_out_and_said(folder: Path, name: str) -> None:
    _LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    _LIBRARY.impl(name, torch.neg, "CompositeExplicitAutograd")
    with torchmark.Capture(folder / "odd.jsonl"):
        getattr(torch.ops.torchmark_fuzz, name).default(torch.ones(2))
        torch.ones(2).neg()
    read = load_trace(folder / "odd.jsonl")
    assert "aten.neg.default" in {call.op for call in read.calls}
    said = f"1 calls of torchmark_fuzz.{name}.default that could not be described"
    assert [each for each in read.unseen if each.startswith(said)]
