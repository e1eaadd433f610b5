"""What a project sets for itself: `torchmark.toml`, or `[tool.torchmark]` of pyproject.toml.

The nearest directory, from the working directory upwards, that has either of them counts; of the
two, torchmark.toml does. A key that torchmark does not know is an error, since a misspelt setting
that is silently ignored is worse than none.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from torchmark.errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the interpreter of the checks is newer
    import tomli as tomllib

OWN_FILE = "torchmark.toml"
PROJECT_FILE = "pyproject.toml"

Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
"""A finite number from zero on."""

Number = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSettings:
    """What `torchmark compare` does not call a change, in per cent; None is its own default."""

    time: Amount | None = None
    """Of times."""

    count: Amount | None = None
    """Of instruction counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What `torchmark run` does unless its options say otherwise; None is its own default."""

    time: bool | None = None
    """Whether times are measured."""

    count: bool | None = None
    """Whether instructions are counted."""

    cpp: bool | None = None
    """Whether C++ cases run."""

    quick: bool | None = None
    """Whether the quick subset runs alone."""

    threads: Number | None = None
    """Threads that torch may use in every case."""

    repeats: Number | None = None
    """How often every case is measured."""

    budget: Amount | None = None
    """Seconds of measured blocks for the times of a case, at most."""

    timeout: Amount | None = None
    """Seconds after which a case is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it; without a file everything is as torchmark has it."""

    suites: tuple[str, ...] = ()
    """What `torchmark run` runs: modules, files or directories as written there."""

    store: str | None = None
    """The store's URL or path; a relative path is taken from the file's directory."""

    thresholds: ThresholdSettings = field(default_factory=ThresholdSettings)
    run: RunSettings = field(default_factory=RunSettings)

    file: Path | None = None
    """Where it was read; relative paths of suites start from its directory."""


_TABLES = {"thresholds": ThresholdSettings, "run": RunSettings}
_KEYS = tuple(each.name for each in fields(Settings) if each.name != "file")


def settings_for(directory: Path) -> Settings:
    """The settings that count in a directory."""
    start = directory.absolute()
    for folder in (start, *start.parents):
        own, project = folder / OWN_FILE, folder / PROJECT_FILE
        if own.is_file():
            return _settings_of(own, _read(own), "")
        if project.is_file():
            table = _tool_table(project)
            if table is not None:
                return _settings_of(project, table, "tool.torchmark")
    return Settings()


def _tool_table(project: Path) -> dict[str, Any] | None:
    tools = _read(project).get("tool")
    table = tools.get("torchmark") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{project}: tool.torchmark must be a table, got {table!r}")
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _settings_of(path: Path, table: dict[str, Any], prefix: str) -> Settings:
    _check_keys(path, table, _KEYS, prefix)
    for name, kind in _TABLES.items():
        if isinstance(table.get(name), dict):
            known = tuple(each.name for each in fields(kind))
            _check_keys(path, table[name], known, _dotted(prefix, name))
    try:
        found = msgspec.convert({**table, "file": None}, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {_in_toml_words(str(error), prefix)}") from error
    return replace(found, store=_resolve_store(found.store, path.parent), file=path)


def _check_keys(path: Path, table: dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            raise SettingsError(
                f"{path}: unknown key {_dotted(prefix, key)}; the keys there are {', '.join(known)}"
            )


def _in_toml_words(message: str, prefix: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.run.threads`", with the key that people know."""
    what, _, place = message.partition(" - at `$")
    key = _dotted(prefix, place.strip("`").lstrip(".")) if place else prefix
    return f"{key}: {what[0].lower()}{what[1:]}"


def _dotted(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def _resolve_store(store: str | None, directory: Path) -> str | None:
    if store is None or "://" in store:
        return store
    return str(directory / Path(store).expanduser())
