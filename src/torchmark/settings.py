"""Settings of a project: `torchmark.toml`, or `[tool.torchmark]` in pyproject.toml.

torchmark uses the nearest directory that has one of them, from the working directory upwards. If
a directory has both, torchmark.toml is used. An unknown key is an error, so that a misspelt
setting is not silently ignored.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from torchmark.errors import SettingsError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the interpreter of the checks is newer
    import tomli as tomllib

OWN_FILE = "torchmark.toml"
PROJECT_FILE = "pyproject.toml"

Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
"""A finite number, zero or more."""

Number = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSettings:
    """Changes that `torchmark compare` ignores, in per cent; None is its default."""

    time: Amount | None = None
    """For times."""

    count: Amount | None = None
    """For instruction counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Defaults for the options of `torchmark run`; None keeps its built-in default."""

    time: bool | None = None
    """Measure times."""

    count: bool | None = None
    """Count instructions."""

    cpp: bool | None = None
    """Run C++ cases."""

    quick: bool | None = None
    """Run only the quick subset."""

    threads: Number | None = None
    """Number of torch threads in every case."""

    repeats: Number | None = None
    """Number of fresh processes in which each case is measured."""

    budget: Amount | None = None
    """Maximum seconds of measured blocks for each case."""

    timeout: Amount | None = None
    """Seconds after which a case is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """How much worse some cases may get, for `torchmark check` and `torchmark ci`."""

    cases: str = ""
    """The cases, as for `-k`; all by default."""

    metric: Literal["time", "instructions", "memory"] | None = None
    """What it applies to; None means everything."""

    soft: Amount | None = None
    """Warn beyond so many per cent."""

    hard: Amount | None = None
    """Fail beyond so many per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectsSettings:
    """Which cases some files can affect, for `torchmark ci`."""

    files: str | tuple[str, ...]
    """One or several patterns of files, such as `src/nn/**`, relative to the repository."""

    cases: str | None = None
    """The cases, as for `-k`; an empty text means all, and None means that there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Defaults for the options of `torchmark check`."""

    against: str | None = None
    """The branch, run or tag that new results are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """Defaults for the options of `torchmark publish`."""

    title: str | None = None
    """The title of the site."""

    commit_url: str | None = None
    """The address of a commit, with {commit} in it."""

    site_url: str | None = None
    """The address of the site, for its feed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings; without a file, every setting has its default."""

    suites: tuple[str, ...] = ()
    """Suites that `torchmark run` runs: modules, files or directories."""

    store: str | None = None
    """URL or path of the store; a relative path starts at the directory of the settings file."""

    thresholds: ThresholdSettings = field(default_factory=ThresholdSettings)
    run: RunSettings = field(default_factory=RunSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    publish: PublishSettings = field(default_factory=PublishSettings)
    limits: tuple[LimitSettings, ...] = ()
    """Limits of cases; a later entry replaces an earlier one."""

    affects: tuple[AffectsSettings, ...] = ()
    """The cases that files can affect; a file that no entry names can affect all."""

    file: Path | None = None
    """The settings file; relative paths of suites start at its directory."""


_TABLES = {
    "thresholds": ThresholdSettings,
    "run": RunSettings,
    "check": CheckSettings,
    "publish": PublishSettings,
}
_LISTS = {"limits": LimitSettings, "affects": AffectsSettings}
"""Keys whose value is a list of tables."""

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "array": "a list",
    "object": "a table",
}
"""Names for msgspec's types. It says `null` for settings that may be missing."""

_KEYS = tuple(each.name for each in fields(Settings) if each.name != "file")


def settings_for(directory: Path) -> Settings:
    """The settings that apply in a directory."""
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
            _check_keys(path, table[name], _names_of(kind), _dotted(prefix, name))
    for name, kind in _LISTS.items():
        entries = table.get(name)
        for place, each in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(each, dict):
                _check_keys(path, each, _names_of(kind), _dotted(prefix, f"{name}[{place}]"))
    try:
        found = msgspec.convert({**table, "file": None}, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: {_in_toml_words(str(error), prefix)}") from error
    return replace(found, store=_resolve_store(found.store, path.parent), file=path)


def _names_of(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _check_keys(path: Path, table: dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for key in table:
        if key not in known:
            raise SettingsError(
                f"{path}: unknown key {_dotted(prefix, key)}; valid keys are {', '.join(known)}"
            )


def _in_toml_words(message: str, prefix: str) -> str:
    """msgspec's message "Expected `int`, got `str` - at `$.run.threads`", with the key first.

    >>> _in_toml_words("Expected `int | null`, got `str` - at `$.run.threads`", "")
    'run.threads: expected a whole number, got a string'
    """
    what, _, place = message.partition(" - at `$")
    key = _dotted(prefix, place.strip("`").lstrip(".")) if place else prefix
    what = re.sub("`([^`]*)`", lambda types: _name_types(types[1]), what)
    return f"{key}: {what[0].lower()}{what[1:]}"


def _name_types(types: str) -> str:
    names = [_TYPES.get(each, each) for each in types.split(" | ") if each != "null"]
    return " or ".join(names)


def _dotted(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def _resolve_store(store: str | None, directory: Path) -> str | None:
    if store is None or "://" in store:
        return store
    return str(directory / Path(store).expanduser())
