"""Programs that a capture must neither break nor change: each returns what it computed."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * gradients[0]


class Wrapped(torch.Tensor):
    """A tensor that computes in its own way."""

    inside: torch.Tensor

    @staticmethod
    def __new__(cls, inside: torch.Tensor) -> Any:
        wrapped = torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        wrapped.inside = inside
        return wrapped

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        opened = tree_map(lambda v: v.inside if isinstance(v, Wrapped) else v, (args, kwargs or {}))
        result = func(*opened[0], **opened[1])
        return tree_map(lambda v: Wrapped(v) if isinstance(v, torch.Tensor) else v, result)


class Named(torch.Tensor):
    """A tensor with a `__torch_function__` of its own."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(  # type: ignore[no-untyped-call]
            func, types, args, kwargs or {}
        )


class CountingCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_op: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.by_op[str(func)] += 1
        return func(*args, **(kwargs or {}))


class CountingFunctions(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


class Failing(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


def checkpointing() -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
    x = torch.randn(3, 4, requires_grad=True)
    for reentrant in (False, True):
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    return x.grad


def own_function() -> Any:
    x = torch.randn(4, requires_grad=True)
    Square.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    return x.grad


def transforms() -> Any:
    x, w = torch.randn(5, 4), torch.randn(4)
    each = torch.vmap(torch.func.grad(lambda w, x: (w * x).sin().sum()), (None, 0))
    return each(w, x), torch.func.jacrev(torch.sin)(w)


def without_gradient() -> Any:
    model = nn.Linear(4, 4)
    with torch.inference_mode():
        inference = model(torch.ones(2, 4)).clone()
    with torch.no_grad():
        return model(torch.ones(2, 4)), torch.tensor(inference.tolist())


def mixed_precision() -> Any:
    model = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 4)).float().sum()
    loss.backward()
    return loss.detach(), model.weight.grad


def sparse_tensors() -> Any:
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0]), (2, 3)
    )
    dense = torch.randn(3, 2)
    embedding = nn.Embedding(10, 3, sparse=True)
    embedding(torch.tensor([1, 2, 2])).sum().backward()
    torch.optim.SparseAdam(embedding.parameters()).step()  # type: ignore[no-untyped-call]
    return torch.sparse.mm(sparse, dense), (sparse + sparse).to_dense(), embedding.weight.detach()


def tensor_classes() -> Any:
    wrapped = Wrapped(torch.randn(3)) * 2 + 1
    named = (torch.randn(3).as_subclass(Named) + 1).sin()
    return wrapped.inside, named.as_subclass(torch.Tensor)


def unusual_tensors() -> Any:
    quantized = torch.quantize_per_tensor(torch.randn(3, 3), 0.1, 0, torch.qint8)
    nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    meta = nn.Linear(3, 3, device="meta")(torch.randn(2, 3, device="meta"))
    low = torch.randn(4).to(torch.float8_e4m3fn).float()
    return quantized.int_repr(), (nested * 2).values(), torch.tensor(meta.shape), low


def errors_inside_of_modules() -> Any:
    for error in (ValueError("expected"), KeyboardInterrupt()):
        model = nn.Sequential(nn.Linear(4, 4), Failing(error))
        with contextlib.suppress(type(error)):
            model(torch.ones(2, 4))
    with contextlib.suppress(RuntimeError):
        torch.ones(2) @ torch.ones(3)
    return nn.Linear(4, 4)(torch.ones(2, 4)).detach()


def random_numbers() -> Any:
    generator = torch.Generator().manual_seed(3)
    return (
        torch.randn(3, generator=generator),
        torch.randperm(5, generator=generator),
        torch.rand(2),
    )


def default_device() -> Any:
    torch.set_default_device("cpu")
    try:
        return torch.randn(3) + torch.ones(3)
    finally:
        torch.set_default_device(None)


def other_modes() -> Any:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with CountingCalls() as calls, CountingFunctions() as functions:
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    return torch.tensor([calls.by_op.total(), functions.seen]), model.weight.detach()


def inference_of_a_transformer() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    with torch.no_grad():
        return model(torch.randn(2, 3, 8))


def closure_of_an_optimizer() -> Any:
    weight = torch.randn(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach()


def gradient_of_a_gradient() -> Any:
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()  # type: ignore[no-untyped-call]
    return x.grad


def complex_numbers() -> Any:
    x = torch.randn(3, dtype=torch.complex64)
    return x.conj() @ x, x.conj().imag + 1


def threads() -> Any:
    results: list[torch.Tensor] = []
    model = nn.Linear(4, 1)

    class Own(threading.Thread):
        def run(self) -> None:
            results.append(torch.ones(3).sin())

    for thread in (Own(), threading.Thread(target=lambda: results.append(model(torch.ones(4))))):
        thread.start()
        thread.join()
    return [result.detach() for result in results]


PROGRAMS = [
    checkpointing,
    own_function,
    transforms,
    without_gradient,
    mixed_precision,
    sparse_tensors,
    tensor_classes,
    unusual_tensors,
    errors_inside_of_modules,
    random_numbers,
    default_device,
    other_modes,
    inference_of_a_transformer,
    closure_of_an_optimizer,
    gradient_of_a_gradient,
    complex_numbers,
    threads,
]
