"""A call that comes again is known by a comparison: as exact as its key, and without making one."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch

import torchmark
from torchmark.capture import calls
from torchmark.capture.known import KnownCall, KnownCalls, key_of
from torchmark.capture.looks import TensorLooks

if TYPE_CHECKING:
    from collections.abc import Callable

Call = tuple[tuple[Any, ...], dict[str, Any]]
OP = torch.ops.aten.add.Tensor._op


def variants() -> dict[str, Call]:
    """Arguments that differ from the first in one thing each."""
    x, y = torch.ones(4, 4), torch.ones(4, 4)
    large = torch.ones(100)
    return {
        "two tensors": ((x, y), {}),
        "one tensor": ((x,), {}),
        "the same twice": ((x, x), {}),
        "two views of one memory": ((large[:16].view(4, 4), large[16:32].view(4, 4)), {}),
        "another size": ((x, torch.ones(4)), {}),
        "another dtype": ((x, y.double()), {}),
        "another stride": ((x, y.t()), {}),
        "another offset": ((x, large[1:17].view(4, 4)), {}),
        "a gradient": ((x, torch.ones(4, 4, requires_grad=True)), {}),
        "a parameter": ((x, torch.nn.Parameter(y)), {}),
        "another device": ((x, torch.ones(4, 4, device="meta")), {}),
        "a sparse one": ((x, torch.eye(4).to_sparse()), {}),
        "none": ((x, None), {}),
        "an integer": ((x, 1), {}),
        "another integer": ((x, 2), {}),
        "a float": ((x, 1.0), {}),
        "a truth": ((x, True), {}),
        "a list": ((x, [1, 2]), {}),
        "another list": ((x, [1, 3]), {}),
        "a keyword": ((x, y), {"alpha": 1}),
        "another keyword": ((x, y), {"alpha": 2}),
        "a keyword of another type": ((x, y), {"alpha": 1.0}),
        "a keyword that is a tensor": ((x, y), {"out": torch.ones(4, 4)}),
        "a dtype": ((x, torch.float32), {}),
    }


NOT_COMPARED = {"a keyword that is a tensor", "a sparse one"}
"""These have a key every time."""


def learned(call: Call) -> KnownCall:
    known = KnownCall((), 0, KnownCalls(0))
    known.learn(OP, *call, folded=False)
    return known


def fits(known: KnownCall, call: Call) -> bool:
    return known.call is OP and known.fits(*call)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_a_call_fits_if_and_only_if_its_key_is_the_same(mode: Callable[[], Any]) -> None:
    looks = TensorLooks()
    with mode():
        for (name, one), (other_name, other) in itertools.product(variants().items(), repeat=2):
            is_same = (
                key_of(OP, *one, looks) == key_of(OP, *other, looks) and name not in NOT_COMPARED
            )
            assert fits(learned(one), other) == is_same, (name, other_name)


def test_equal_tensors_have_one_look_and_others_have_another() -> None:
    looks = TensorLooks()
    x = torch.ones(4, 4, dtype=torch.complex64)
    assert looks.find(x) is looks.find(torch.zeros(4, 4, dtype=torch.complex64))
    wide = x.to(torch.complex128)
    others = [x, x.conj(), x.conj().imag, x.t(), x[:3], wide, torch.nn.Parameter(x)]
    assert len({looks.find(each) for each in others}) == len(others)


def test_lists_of_tensors_are_left_to_their_key() -> None:
    tensors = [torch.ones(4), torch.ones(4)]
    assert learned(((tensors[0], tensors), {})).call is None


def test_a_tensor_without_sizes_is_left_to_its_key() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert learned(((nested,), {})).call is None


def test_a_list_of_the_program_may_change_afterwards() -> None:
    x, sizes = torch.ones(4, 4), [4, 4]
    known = learned(((x, sizes), {}))
    sizes[0] = 2
    assert not fits(known, ((x, sizes), {}))
    assert fits(known, ((x, [4, 4]), {}))


def test_floats_of_a_folded_call_may_have_any_value() -> None:
    x = torch.ones(4)
    known = KnownCall((), 0, KnownCalls(0))
    known.learn(OP, (x, 0.5, 1), {"alpha": 0.25, "beta": 2}, folded=True)
    assert known.fits((x, 0.75, 1), {"alpha": 0.125, "beta": 2})
    assert not known.fits((x, 0.75, 2), {"alpha": 0.125, "beta": 2})
    assert not known.fits((x, 0.75, 1), {"alpha": 0.125, "beta": 3})
    assert not known.fits((x, 1, 1), {"alpha": 0.125, "beta": 2})


def training(model: torch.nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(8, 6)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def test_a_training_that_repeats_itself_needs_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted_key(call: Any, args: Any, kwargs: Any, looks: TensorLooks) -> Any:
        if any(isinstance(each, torch.Tensor) for each in args):  # no mark for a profiler
            made.append(args)
        return key_of(call, args, kwargs, looks)

    monkeypatch.setattr(calls, "key_of", counted_key)
    step = training(torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU()))
    with torchmark.Capture() as capture:
        for _ in range(12):  # Adam's factors change with every step, and eight of them are kept
            step()
        made.clear()
        for _ in range(5):
            step()
        assert made == []
    *_, last = capture.trace().steps
    assert last.repeats > 5
    assert len(last.calls) > 10


def test_a_step_that_differs_is_recorded_as_it_is() -> None:
    """The calls that were expected do not come, and others come in their place."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 6)
    sizes = [4, 4, 4, 4, 4, 4, 5, 4, 4]
    with torchmark.Capture() as capture:
        for size in sizes:
            model(torch.ones(size, 6))
            capture.step()
    trace = capture.trace()
    seen = [
        trace.calls[number].args[1]
        for step in trace.steps
        for _ in range(step.repeats)
        for number in step.calls
        if trace.calls[number].op == "aten.addmm.default"
    ]
    assert [shape_of(each)[0] for each in seen] == sizes


def shape_of(argument: Any) -> list[int]:
    return list(argument["tensor"]["shape"])
