"""Where operators are drawn from: PyTorch's operator samples, and calls of captured models.

Both give a `Call`: text whose execution defines `op`, `args` and `kwargs`. All functions here are
meant for forked children (`children.run_in_child`), except `operators`: they run backward passes,
after which a process cannot fork one that does.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import torchmark
from examples.models import MODELS
from torchmark.define.recorded import definitions_of

if TYPE_CHECKING:
    from pathlib import Path

MOST_SAMPLES = 30
"""Of an operator and dtype, from which one is drawn."""

DTYPES = (torch.float32, torch.int64, torch.bool)
"""The first that an operator supports is taken."""

SCALES = (1, 4)
"""Of the models, whose calls are drawn from all of these."""

WARM_UP = 2
"""Steps before the captured one, so that optimizers have made their state."""


class Call(NamedTuple):
    """An operator with arguments, as text."""

    operator: str
    """As its source names it."""

    source: str
    """"OpInfo", or the captured model and its scale."""

    setup: str
    """Defines `op`, `args` and `kwargs`."""

    leaves: tuple[str, ...] = ()
    """Expressions of the arguments that a backward pass is to reach; none for no such pass."""

    @property
    def family(self) -> str:
        """The same for all overloads and the in-place variant of an operator."""
        return family_of(self.operator)


def family_of(operator: str) -> str:
    """`aten.add_.Tensor`, `add` and `nn.functional.…` by what they compute.

    >>> family_of("aten.add_.Tensor"), family_of("nn.functional.relu"), family_of("linalg.inv")
    ('add', 'relu', 'inv')
    >>> family_of("torch.ops.aten._safe_softmax.default")
    'safe_softmax'
    """
    parts = operator.removeprefix("torch.ops.").split(".")
    name = parts[1] if len(parts) > 2 and parts[0] not in ("nn", "torch") else parts[-1]
    return re.sub(r"^(special|linalg|fft)_", "", name.strip("_"))


def operators() -> list[Any]:
    """OpInfo of every operator that has a public name; the import takes seconds."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    return [info for info in op_db if public_name(info)]


def public_name(info: Any) -> str | None:
    """Text that gives the operator without its samples, such as `torch.nn.functional.relu`."""
    if info.variant_test_name:
        return None  # the same operator again, with other samples
    path = info.name.removeprefix("torch.")
    for home, prefix in ((torch, "torch"), (torch.Tensor, "torch.Tensor")):
        found: Any = home
        for part in path.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"{prefix}.{path}"
    return None


def draw_sample(info: Any, seed: int, path: Path, *, is_backward: bool) -> Call:
    """A call with one of the operator's samples, whose arguments are written to `path`."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)
    dtype = next(each for each in DTYPES if each in info.supported_dtypes("cpu"))
    samples = info.sample_inputs("cpu", dtype, requires_grad=is_backward)
    some = [each for each in itertools.islice(samples, MOST_SAMPLES) if _has_elements(each)]
    sample = random.Random(seed).choice(some)
    args = _plain([sample.input, *sample.args])
    kwargs = _plain(sample.kwargs)
    leaves = [where for where, tensor in tensors_in(args, kwargs) if tensor.requires_grad]
    with torch.no_grad():
        torch.save(_detached([args, kwargs]), path)
    setup = (
        f"op = {public_name(info)}\n"
        f"args, kwargs = torch.load({str(path)!r}, weights_only=True)\n"
    )  # fmt: skip
    return Call(info.name, "OpInfo", setup, tuple(leaves) if is_backward else ())


def _has_elements(sample: Any) -> bool:
    inputs = tensors_in(_plain([sample.input, *sample.args]), _plain(sample.kwargs))
    return bool(inputs) and all(tensor.numel() for _, tensor in inputs)


def _plain(value: Any) -> Any:
    """Tuples as lists, so that a setup can replace what is in them."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list):
        return [_detached(each) for each in value]
    if isinstance(value, dict):
        return {name: _detached(each) for name, each in value.items()}
    return value


def tensors_in(args: Any, kwargs: Any) -> list[tuple[str, torch.Tensor]]:
    """Every tensor among the arguments with its expression, as `args[0][1]`."""
    found: list[tuple[str, torch.Tensor]] = []

    def visit(where: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found.append((where, value))
        elif isinstance(value, list):
            for number, each in enumerate(value):
                visit(f"{where}[{number}]", each)
        elif isinstance(value, dict):
            for name, each in value.items():
                visit(f"{where}[{name!r}]", each)

    visit("args", list(args))
    visit("kwargs", kwargs)
    return found


def capture_models() -> list[Call]:
    """Every distinct call of a training step of the ten models."""
    torch.set_num_threads(1)  # two took 17 s, one takes 4
    calls = []
    for name, make in MODELS.items():
        for scale in SCALES:
            step = make(scale)
            for _ in range(WARM_UP):
                step()
            with torchmark.Capture() as capture:
                step()
            for label, definition in definitions_of(capture.trace()).items():
                if not definition.skip:
                    calls.append(
                        Call(label[0], f"{name} ×{scale}", f"{definition.setup.strip()}\n")
                    )
    return calls
