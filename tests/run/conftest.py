"""Zygotes for a whole session: a start costs seconds, and half a minute under callgrind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchmark.run.zygote import Zygote

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def plain_zygote() -> Iterator[Zygote]:
    with Zygote(at_once=2) as zygote:
        zygote.start()
        yield zygote


@pytest.fixture(scope="session")
def callgrind_zygote() -> Iterator[Zygote]:
    with Zygote(under_callgrind=True, at_once=2) as zygote:
        zygote.start()
        yield zygote
