"""Setups that definitions of the instruction-count suite share, by the names of the original."""

from __future__ import annotations

import enum

from core.api import GroupedSetup


def _ones(*names: str, size: str) -> GroupedSetup:
    return GroupedSetup(
        "\n".join(f"{name} = torch.ones(({size}))" for name in names),
        "\n".join(f"auto {name} = torch::ones({{{size}}});" for name in names),
    )


class Setup(enum.Enum):
    TRIVIAL_2D = _ones("x", size="4, 4")
    TRIVIAL_3D = _ones("x", size="4, 4, 4")
    TRIVIAL_4D = _ones("x", size="4, 4, 4, 4")
    GENERIC = GroupedSetup(
        """
        torch.manual_seed(1)
        x = torch.rand((4, 4))
        y_float = torch.ones((4, 4))
        y_int = torch.ones((4, 4), dtype=torch.int32)
        """,
        """
        torch::manual_seed(1);
        auto x = torch::rand({4, 4});
        auto y_float = torch::ones({4, 4});
        auto y_int = torch::ones({4, 4}, torch::kInt);
        """,
    )
    INDEXING = GroupedSetup(
        """
        torch.manual_seed(2)
        x = torch.randn(1, 1, 1)
        y = torch.randn(1, 1, 1)
        a = torch.zeros(100, 100, 1, 1, 1)
        b = torch.arange(100).flip(0)
        """,
        """
        using namespace torch::indexing;
        torch::manual_seed(2);
        auto x = torch::randn({1, 1, 1});
        auto y = torch::randn({1, 1, 1});
        auto a = torch::zeros({100, 100, 1, 1, 1});
        auto b = torch::arange(100, torch::kLong).flip(0);
        """,
    )
    MESOSCALE = GroupedSetup(
        """
        x, y = torch.ones((4, 4)), torch.ones((4, 4))
        bias = torch.ones((1,))
        eye_4 = torch.eye(4)
        """,
        """
        auto x = torch::ones({4, 4});
        auto y = torch::ones({4, 4});
        auto bias = torch::ones({1});
        auto eye_4 = torch::eye(4);
        """,
    )
    TRAINING = GroupedSetup(
        """
        x, y = torch.ones((1,)), torch.ones((1,))
        w0 = torch.ones((1,), requires_grad=True)
        w1 = torch.ones((1,), requires_grad=True)
        w2 = torch.ones((2,), requires_grad=True)
        """,
        """
        auto x = torch::ones({1});
        auto y = torch::ones({1});
        auto w0 = torch::ones({1}).set_requires_grad(true);
        auto w1 = torch::ones({1}).set_requires_grad(true);
        auto w2 = torch::ones({2}).set_requires_grad(true);
        """,
    )
