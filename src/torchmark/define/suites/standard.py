"""The standard suite: the overhead of everyday operations, in Python and in C++.

Tensors are small, so the suite measures the overhead before the kernel and not the kernel. In-place
statements keep values for which arithmetic is as fast in the last run as in the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchmark.define.grouped import (
    GroupedBenchmark,
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    GroupedVariants,
)
from torchmark.model.case import Autograd, Case, joined, trimmed

_EMPTY = {
    "no allocation": GroupedStmts("torch.empty((0,))", "torch::empty({0});"),
    "with allocation": GroupedStmts("torch.empty((1,))", "torch::empty({1});"),
    "overloads": GroupedVariants(
        cpp_block="""
            // @TensorOptions overload
            at::empty({16}, at::TensorOptions());
            at::empty({16}, at::TensorOptions().dtype(at::kFloat));
            at::empty({16}, at::TensorOptions().dtype(at::kFloat).device(at::kCPU));

            // @faithful overload
            at::empty({16}, {}, {}, {}, {}, {});
            at::empty({16}, at::kFloat, {}, {}, {}, {});
            at::empty({16}, at::kFloat, {}, at::kCPU, {}, {});
        """
    ),
}


def _alike(py_setup: str, cpp_setup: str, stmts: str) -> dict[tuple[str, ...], GroupedBenchmark]:
    """Variants with the same statements in both languages, except for the semicolon at the end."""
    python = trimmed(stmts)
    lines = python.replace("# @", "// @").split("\n")
    cpp = "\n".join(line if line.startswith("//") or not line else f"{line};" for line in lines)
    return GroupedVariants(
        joined("# @Setup", trimmed(py_setup), python), joined("// @Setup", trimmed(cpp_setup), cpp)
    )


# Equal shapes, a broadcast row, a float and an int scalar, in place with a tensor and a scalar, and
# mixed dtypes. Ones stay ones when they are multiplied in place.
_MATH = _alike(
    """
        x = torch.ones((4, 4))
        y = torch.ones((4, 4))
        row = torch.ones((4,))
        whole = torch.ones((4, 4), dtype=torch.int64)
    """,
    """
        auto x = torch::ones({4, 4});
        auto y = torch::ones({4, 4});
        auto row = torch::ones({4});
        auto whole = torch::ones({4, 4}, at::kLong);
    """,
    """
        # @add
        x + y
        x + row
        x + 1.0
        x + 1
        x.add_(y)
        x.add_(1)
        x + whole

        # @multiply
        x * y
        x * row
        x * 1.0
        x * 1
        x.mul_(y)
        x.mul_(1)
        x * whole

        # @equality
        x == y
        x == 1.0
    """,
)

_DATA_MOVEMENT = _alike(
    """
        x = torch.ones((4, 4))
        y = torch.ones((4, 4))
        columns = torch.ones((4, 4)).t()
    """,
    """
        auto x = torch::ones({4, 4});
        auto y = torch::ones({4, 4});
        auto columns = torch::ones({4, 4}).t();
    """,
    """
        # @contiguous (trivial)
        x.contiguous()
        # @contiguous (non-trivial)
        columns.contiguous()
        # @clone
        x.clone()
        # @copy_
        x.copy_(y)
        # @zero_
        x.zero_()
        # @RNG
        x.uniform_()
    """,
)

_REDUCTION = _alike(
    "x = torch.ones((4, 4))",
    "auto x = torch::ones({4, 4});",
    """
        # @max
        x.max()
        # @sum
        x.sum()
        # @variance
        x.var()
    """,
)

_INDEXING = GroupedVariants(
    py_block="""
        # @Setup
        x = torch.zeros((4, 4, 4))
        row = torch.ones((4,))
        plane = torch.ones((4, 4))
        pair = torch.ones((2,))
        index = torch.tensor([0, 2])
        mask = torch.tensor([True, False, True, False])

        # @Tensor-Scalar
        x[0] = 1
        x[0, 0] = 1
        x[..., 1:3] = 1

        # @Tensor-Scalar (Advanced)
        x[index] = 1
        x[index, index] = 1
        x[:, index] = 1
        x[index, ..., index] = 1
        x[mask] = 1

        # @Tensor-Tensor
        x[0] = plane
        x[0, 0] = row
        x[..., 1:3] = pair

        # @Tensor-Tensor (Advanced)
        x[index] = plane
        x[index, index] = row
        x[:, index] = row
        x[index, ..., index] = row
        x[mask] = plane
    """,
    cpp_block="""
        // @Setup
        using namespace torch::indexing;
        auto x = torch::zeros({4, 4, 4});
        auto row = torch::ones({4});
        auto plane = torch::ones({4, 4});
        auto pair = torch::ones({2});
        auto index = torch::tensor({0, 2}, at::kLong);
        auto mask = torch::tensor({true, false, true, false}, at::kBool);

        // @Tensor-Scalar
        x.index_put_({0}, 1);
        x.index_put_({0, 0}, 1);
        x.index_put_({Ellipsis, Slice(1, 3)}, 1);

        // @Tensor-Scalar (Advanced)
        x.index_put_({index}, 1);
        x.index_put_({index, index}, 1);
        x.index_put_({Slice(), index}, 1);
        x.index_put_({index, Ellipsis, index}, 1);
        x.index_put_({mask}, 1);

        // @Tensor-Tensor
        x.index_put_({0}, plane);
        x.index_put_({0, 0}, row);
        x.index_put_({Ellipsis, Slice(1, 3)}, pair);

        // @Tensor-Tensor (Advanced)
        x.index_put_({index}, plane);
        x.index_put_({index, index}, row);
        x.index_put_({Slice(), index}, row);
        x.index_put_({index, Ellipsis, index}, row);
        x.index_put_({mask}, plane);
    """,
)

_METADATA = GroupedVariants(
    py_block="""
        # @Setup
        x = torch.ones((4, 4))

        # @size
        x.size(0)
        # @stride
        x.stride(0)
        # @as_strided
        x.as_strided((2, 4), (4, 1))
        # @select
        x.select(1, 1)
        # @unsqueeze
        x.unsqueeze(0)
        # @view
        x.view(-1)
        # @transpose
        x.transpose(0, 1)
        # @reshape
        x.reshape((2, 8))
    """,
    cpp_block="""
        // @Setup
        auto x = torch::ones({4, 4});

        // @size
        x.size(0);
        // @stride
        x.stride(0);
        // @as_strided
        x.as_strided({2, 4}, {4, 1});
        // @select
        x.select(1, 1);
        // @unsqueeze
        x.unsqueeze(0);
        // @view
        x.view({-1});
        // @transpose
        x.transpose(0, 1);
        // @reshape
        x.reshape({2, 8});
    """,
)


def _module(
    python: str, cpp: str, shape: str, *, signature: str = "f(x) -> y", torchscript: bool = True
) -> GroupedBenchmark:
    """A module of torch.nn and its C++ counterpart, called with a tensor of ones of this shape."""
    return GroupedModules(
        f"model = torch.nn.{python}",
        f"auto model = torch::nn::{cpp};",
        setup=GroupedSetup(f"x = torch.ones(({shape}))", f"auto x = torch::ones({{{shape}}});"),
        signature=signature,
        torchscript=torchscript,
    )


_MODULES = {
    "BatchNorm2d": _module("BatchNorm2d(4)", "BatchNorm2d(4)", "2, 4, 3, 3"),
    "GroupNorm": _module("GroupNorm(2, 4)", "GroupNorm(2, 4)", "2, 4, 3, 3"),
    "LayerNorm": _module("LayerNorm(4)", "LayerNorm(torch::nn::LayerNormOptions({4}))", "2, 4, 4"),
    "Conv1d": _module("Conv1d(4, 4, 2)", "Conv1d(4, 4, 2)", "2, 4, 8"),
    "Conv2d": _module("Conv2d(4, 4, 2)", "Conv2d(4, 4, 2)", "2, 4, 6, 6"),
    "MaxPool2d": _module("MaxPool2d(2)", "MaxPool2d(2)", "2, 4, 6, 6"),
    "ReLU": _module("ReLU()", "ReLU()", "4, 4"),
    "Sigmoid": _module("Sigmoid()", "Sigmoid()", "4, 4"),
    "Linear": _module("Linear(4, 2)", "Linear(4, 2)", "3, 4"),
    "LSTM": _module(
        "LSTM(4, 3)", "LSTM(4, 3)", "5, 2, 4", signature="f(x) -> y, (h, c)", torchscript=False
    ),
}

_TRAINING = {
    "simple": GroupedStmts(
        """
            hidden = torch.relu(x @ w0)
            y = hidden @ w1
        """,
        """
            auto hidden = torch::relu(x.matmul(w0));
            auto y = hidden.matmul(w1);
        """,
        setup=GroupedSetup(
            """
                x = torch.ones((4, 4))
                w0 = torch.ones((4, 4), requires_grad=True)
                w1 = torch.ones((4, 1), requires_grad=True)
            """,
            """
                auto x = torch::ones({4, 4});
                auto w0 = torch::ones({4, 4}).set_requires_grad(true);
                auto w1 = torch::ones({4, 1}).set_requires_grad(true);
            """,
        ),
        signature="f(x, w0, w1) -> y",
        torchscript=True,
        autograd=True,
        num_threads=(1, 2),
    ),
    "ensemble": GroupedStmts(
        """
            first = torch.relu(x @ w0 + b0)
            second = torch.sigmoid(x @ w1 + b1)
            third = torch.tanh(x @ w2 + b2)
            y = torch.stack([first, second, third]).mean(0)
        """,
        """
            auto first = torch::relu(x.matmul(w0) + b0);
            auto second = torch::sigmoid(x.matmul(w1) + b1);
            auto third = torch::tanh(x.matmul(w2) + b2);
            auto y = torch::stack({first, second, third}).mean(0);
        """,
        setup=GroupedSetup(
            """
                x = torch.ones((4, 4))
                w0, w1, w2 = (torch.ones((4, 2), requires_grad=True) for _ in range(3))
                b0, b1, b2 = (torch.zeros((2,), requires_grad=True) for _ in range(3))
            """,
            """
                auto x = torch::ones({4, 4});
                auto w0 = torch::ones({4, 2}).set_requires_grad(true);
                auto w1 = torch::ones({4, 2}).set_requires_grad(true);
                auto w2 = torch::ones({4, 2}).set_requires_grad(true);
                auto b0 = torch::zeros({2}).set_requires_grad(true);
                auto b1 = torch::zeros({2}).set_requires_grad(true);
                auto b2 = torch::zeros({2}).set_requires_grad(true);
            """,
        ),
        signature="f(x, w0, b0, w1, b1, w2, b2) -> y",
        torchscript=True,
        autograd=True,
        num_threads=(1, 2),
    ),
}

# Autograd does not track tensors made in inference mode; it does track those made outside of it.
_INFERENCE_MODE = GroupedVariants(
    cpp_block="""
        // @Setup
        auto untracked = [] { c10::InferenceMode guard; return torch::ones({4, 4}); }();
        auto tracked = torch::ones({4, 4});

        // @View
        c10::InferenceMode guard; auto view = tracked.view({-1});
        // @Inplace
        c10::InferenceMode guard; untracked.mul_(untracked);
        // @Mixed
        c10::InferenceMode guard; auto y = (tracked + untracked).mul_(tracked).view({-1});
    """,
)

SUITE = {
    "Empty": _EMPTY,
    "Pointwise": {"Math": _MATH, "Data movement": _DATA_MOVEMENT},
    "Reduction": _REDUCTION,
    "Indexing": _INDEXING,
    "Metadata and views": _METADATA,
    "nn Modules": _MODULES,
    "training": _TRAINING,
    "InferenceMode": _INFERENCE_MODE,
}

QUICK = (
    ("Empty", "no allocation"),
    ("Empty", "overloads", "faithful overload", "Case:  2"),
    ("Pointwise", "Math", "add", "Case:  0"),
    ("Pointwise", "Data movement", "clone"),
    ("Reduction", "sum"),
    ("Indexing", "Tensor-Scalar", "Case:  0"),
    ("Metadata and views", "view"),
    ("nn Modules", "Linear"),
    ("training", "simple"),
    ("InferenceMode", "Mixed"),
)
"""Labels that represent the whole suite in a quick run: at least one of each group."""


def quick(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return the single-threaded cases with QUICK's labels.

    Of a label with a backward pass, only that case is returned: it includes the forward pass.
    """
    few = [case for case in cases if case.label in QUICK and case.num_threads == 1]
    trained = {case.label for case in few if case.autograd is Autograd.FORWARD_BACKWARD}
    return tuple(
        case
        for case in few
        if case.label not in trained or case.autograd is Autograd.FORWARD_BACKWARD
    )
