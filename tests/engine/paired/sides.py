"""An environment under test, by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.under_test import UnderTest, open_environments

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_one(
    name: str,
    command: str,
    path: Sequence[str] = (),
    modules: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> UnderTest:
    (side,) = open_environments({name: command}, path, modules, imports)
    return side
