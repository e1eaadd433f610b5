"""What every test relies on: the wheel under test, a cache of its own, nothing left behind.

And zygotes for a whole session: a start costs seconds, and half a minute under callgrind.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings

import torchmark
from tests.browsing import browser, visit  # noqa: F401 - fixtures for every test of a page
from torchmark.engine.pace import process_reference_loop
from torchmark.engine.under_test import SETUP_MODULES
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent

SLOWEST = (
    "test_counting.py",
    "cli/test_ab.py",
    "cli/test_cli.py",
    "test_ci_examples.py",
    "cli/test_flame.py",
    "engine/cpp/test_real_headers.py",
    "define/suites/test_overrides.py",
    "cli/test_run.py",
    "define/suites/test_standard.py",
    "commands/test_replay.py",
    "engine/test_zygote_counts.py",
    "engine/cpp/test_real.py",
    "engine/test_old_torch.py",
)
"""Files that take longest, longest first: begun last, one would keep a worker waiting."""

# Shared machines stall for longer than hypothesis' default patience with one example.
settings.register_profile("torchmark", deadline=None)
settings.load_profile("torchmark")


def pytest_sessionstart() -> None:
    """`make test` unpacks the wheel and says where; tests of anything else would prove nothing."""
    expected = os.environ.get("TORCHMARK_TESTED_FROM")
    if expected is not None:
        tested = Path(torchmark.__file__).resolve()
        if Path(expected).resolve() not in tested.parents:
            pytest.exit(f"the tests import {tested}, not the wheel in {expected}", returncode=3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files first; the workers take files in this order."""
    places = {HERE / name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path, len(SLOWEST)))


@pytest.fixture(autouse=True)
def private_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test reads or writes the cache or the store of the person who runs it.

    What is built once for the same content, C++ and the script of charts, is shared by all tests
    of a session, those of other workers too.
    """
    cache = tmp_path_factory.mktemp("cache")
    session = tmp_path_factory.getbasetemp()
    session = session.parent if "PYTEST_XDIST_WORKER" in os.environ else session
    (cache / "torchmark").mkdir()
    for name in ("cpp", "report"):
        (session / name).mkdir(exist_ok=True, mode=0o700)
        (cache / "torchmark" / name).symlink_to(session / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """torch's threads and the garbage collector are after a test as they were before it."""
    threads = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == threads
    assert gc.isenabled()


@pytest.fixture
def fresh_reference_loop() -> Iterator[None]:
    """The process forgets the reference loop before and after."""
    process_reference_loop.cache_clear()
    yield
    process_reference_loop.cache_clear()


@pytest.fixture(scope="session")
def plain_zygote() -> Iterator[Zygote]:
    with Zygote(Launch(modules=SETUP_MODULES), at_once=2) as zygote:
        zygote.start()
        yield zygote


@pytest.fixture(scope="session")
def callgrind_zygote() -> Iterator[Zygote]:
    with Zygote(Launch(under_callgrind=True, modules=SETUP_MODULES), at_once=2) as zygote:
        zygote.start()
        yield zygote


@pytest.fixture
def lent_zygotes(callgrind_zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> ZygotePool:
    """A pool of zygotes as they are asked for; whoever counts gets the one of the session."""
    monkeypatch.setattr(callgrind_zygote, "close", lambda: None)

    def made(launch: Launch, **options: Any) -> Zygote:
        return callgrind_zygote if launch.under_callgrind else Zygote(launch, **options)

    return ZygotePool(make_zygote=made)
