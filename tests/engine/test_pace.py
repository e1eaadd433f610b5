"""What one process learns of the quiet pace, the next one knows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from torchmark.engine import pace


def cache_file() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "torchmark" / "pace.json"


def test_what_was_saved_is_known() -> None:
    assert pace.load() is None
    pace.save(3e-6)
    assert pace.load() == 3e-6


def test_only_a_better_pace_is_written() -> None:
    for better, known in ((5e-6, 5e-6), (4.95e-6, 5e-6), (4e-6, 4e-6), (9e-6, 4e-6)):
        pace.remember_pace(better)
        assert pace.load() == known


@pytest.mark.parametrize(
    "change",
    [
        {"time": 0},
        {"time": 9e12},
        {"machine": {"host": "another"}},
        {"quiet_pace": -1.0},
        {"quiet_pace": "quick"},
        {"quiet_pace": None},
    ],
)
def test_a_pace_that_is_old_or_of_another_machine_or_damaged_is_not_used(
    change: dict[str, Any],
) -> None:
    pace.save(3e-6)
    record = json.loads(cache_file().read_text())
    cache_file().write_text(json.dumps(record | change))
    assert pace.load() is None


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '"x"'])
def test_a_damaged_cache_is_no_cache(text: str) -> None:
    pace.save(3e-6)
    cache_file().write_text(text)
    assert pace.load() is None


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file where the directory should be"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    pace.save(3e-6)
    assert pace.load() is None


def test_a_write_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    pace.save(3e-6)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    pace.save(1e-6)
    files = [file for file in cache_file().parent.iterdir() if not file.is_symlink()]
    assert [file.name for file in files] == ["pace.json"]
    assert pace.load() == 3e-6


@pytest.mark.usefixtures("fresh_reference_loop")
def test_a_process_starts_from_what_is_known() -> None:
    pace.save(1e-9)
    assert pace.process_reference_loop().quiet_pace == 1e-9
    assert pace.process_reference_loop() is pace.process_reference_loop()


@pytest.mark.usefixtures("fresh_reference_loop")
def test_a_process_that_knows_nothing_listens_and_keeps_what_it_heard() -> None:
    heard = pace.process_reference_loop().quiet_pace
    assert 0 < heard < 1
    assert pace.load() == heard


def test_a_user_without_a_home_has_no_cache_and_no_stray_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda text: text)
    monkeypatch.chdir(tmp_path)
    pace.save(1e-6)
    assert pace.load() is None
    assert list(tmp_path.iterdir()) == []


def test_noise_is_the_share_of_slow_readings_and_the_spread_of_the_others() -> None:
    noise = pace.noise_of([1.0] * 50 + [1.1] * 50 + [3.0] * 35, quiet_pace=1.0)
    assert noise.disturbed == pytest.approx(0.5)
    assert noise.spread == pytest.approx(0.1 / 1.05)


def test_measured_noise_is_a_share() -> None:
    noise = pace.measure_noise()
    assert 0 <= noise.disturbed <= 1
    assert noise.spread >= 0


def test_a_machine_that_never_has_its_best_pace_is_wholly_disturbed() -> None:
    assert pace.noise_of([3.0] * 10, quiet_pace=1.0).disturbed == 1.0
