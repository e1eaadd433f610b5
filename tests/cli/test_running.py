"""What `run` and `ab` share: the order in which a run begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from torchmark.cli.running import run_suites
from torchmark.errors import TorchmarkError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_trace_that_is_none_is_told_before_a_worker_imports_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started() -> NoReturn:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("torchmark.cli.running.Workers", started)
    (tmp_path / "bad.jsonl.gz").write_text("garbage")
    options: Any = SimpleNamespace(suites=(str(tmp_path / "bad.jsonl.gz"),))
    store: Any = None
    with pytest.raises(TorchmarkError, match="is no trace"):
        run_suites(options, store, None, quiet=True)
