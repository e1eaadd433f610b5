from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchmark.errors import SettingsError
from torchmark.settings import RunSettings, Settings, ThresholdSettings, settings_for

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
suites = ["standard", "benchmarks/bench_mine.py"]
store = "results/marks.db"
[thresholds]
time = 3
count = 0.01
[run]
time = true
count = false
cpp = false
quick = true
threads = 2
repeats = 3
budget = 1.5
timeout = 90.5
"""


def in_pyproject(text: str) -> str:
    """The same settings under [tool.torchmark]."""
    return "[tool.torchmark]\n" + text.replace(
        "[thresholds]", "[tool.torchmark.thresholds]"
    ).replace("[run]", "[tool.torchmark.run]")


def expected(file: Path) -> Settings:
    return Settings(
        suites=("standard", "benchmarks/bench_mine.py"),
        store=str(file.parent / "results" / "marks.db"),
        thresholds=ThresholdSettings(time=3, count=0.01),
        run=RunSettings(
            time=True,
            count=False,
            cpp=False,
            quick=True,
            threads=2,
            repeats=3,
            budget=1.5,
            timeout=90.5,
        ),
        file=file,
    )


def test_without_a_file_everything_is_as_torchmark_has_it(tmp_path: Path) -> None:
    assert settings_for(tmp_path) == Settings()


def test_a_file_of_its_own_has_the_keys_at_the_top(tmp_path: Path) -> None:
    file = tmp_path / "torchmark.toml"
    file.write_text(FULL)
    assert settings_for(tmp_path) == expected(file)


def test_pyproject_has_them_under_tool_torchmark(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(in_pyproject(FULL))
    assert settings_for(tmp_path) == expected(file)


def test_the_nearest_directory_counts_and_in_it_the_file_of_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "torchmark.toml").write_text('store = "sqlite:///far.db"')
    assert settings_for(inner).store == "sqlite:///far.db"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1")
    assert settings_for(inner).store == "sqlite:///far.db", "a project without settings is passed"
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.torchmark]\nstore = "postgresql://a/b"')
    assert settings_for(inner).store == "postgresql://a/b"
    (tmp_path / "a" / "torchmark.toml").write_text('store = "own.db"')
    assert settings_for(inner).store == str(tmp_path / "a" / "own.db")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stroe = 'x'", "unknown key stroe; valid keys are suites, store"),
        ("[run]\nthread = 1", "unknown key run.thread;"),
        ("[thresholds]\nspeed = 1", "unknown key thresholds.speed;"),
        ("file = 'x'", "unknown key file"),
        ("suites = 'standard'", "suites: expected a list, got a string"),
        ("suites = [1]", r"suites\[0\]: expected a string, got a whole number"),
        ("run = 3", "run: expected a table, got a whole number"),
        ("[run]\nthreads = '2'", "run.threads: expected a whole number, got a string"),
        ("[run]\nquick = 1", "run.quick: expected true or false, got a whole number"),
        ("[run]\nthreads = 0", "run.threads: expected a whole number >= 1"),
        ("[thresholds]\ntime = -1", "thresholds.time: expected a number >= 0.0"),
        ("[thresholds]\ntime = nan", "thresholds.time: expected a number >= 0.0"),
        ("[run]\ntimeout = inf", "run.timeout: expected a number <= "),
    ],
)
def test_a_mistake_is_told_with_its_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    own, project = tmp_path / "torchmark.toml", tmp_path / "pyproject.toml"
    own.write_text(text)
    with pytest.raises(SettingsError, match=f"{own}: .*{says}"):
        settings_for(tmp_path)
    own.unlink()
    project.write_text(in_pyproject(text))
    prefixed = says.replace("unknown key ", r"unknown key tool\.torchmark\.")
    with pytest.raises(SettingsError, match=f"{project}: .*{prefixed}") as caught:
        settings_for(tmp_path)
    assert "tool.torchmark" in str(caught.value)


@pytest.mark.parametrize("content", [b"store = ", b"\xff\xfe", b"[run\n"])
def test_a_file_that_is_no_toml_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "torchmark.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"torchmark\.toml is not valid TOML"):
        settings_for(tmp_path)


def test_a_table_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\ntorchmark = 3")
    with pytest.raises(SettingsError, match=r"tool\.torchmark must be a table"):
        settings_for(tmp_path)


@pytest.mark.parametrize("value", ["[" * 3_000, "9" * 5_000], ids=["nested", "long"])
def test_what_the_reader_of_toml_cannot_take_is_an_error_of_the_file(
    tmp_path: Path, value: str
) -> None:
    """Python's raises a RecursionError and a plain ValueError."""
    (tmp_path / "torchmark.toml").write_text(f"suites = {value}\n")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        settings_for(tmp_path)
