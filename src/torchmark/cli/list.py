"""`torchmark list`: what suites expand to, without running anything of it."""

from __future__ import annotations

import collections
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.commands.suites import default_suites, installed_facts, load_suites
from torchmark.define.selection import selected
from torchmark.define.suites.loading import cases_of
from torchmark.model.case import Language, Runtime
from torchmark.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.errors import SuiteFileError
    from torchmark.model.case import Case


@click.command("list")
@click.argument("suites", metavar="[SUITE…]", nargs=-1)
@click.option("-k", "pattern", metavar="PATTERN", default="", help="Only cases with these words.")
@click.option("--json", "as_json", is_flag=True, help="Print the cases, statements too, as JSON.")
def command(suites: tuple[str, ...], pattern: str, as_json: bool) -> None:
    """Show the cases of a suite: their ids and titles.

    A suite is the name of one that ships (standard, overrides), a Python file, a folder of
    bench_*.py files, or a module; without one those of the settings are shown, or standard. A file
    that cannot be loaded is reported, the others are shown, and the exit code is 3.

    \b
    torchmark list
    torchmark list -k "add and not C++"
    torchmark list my_benchmarks/ bench_extra.py
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    names = suites or default_suites(settings_for(Path.cwd()))
    loaded = load_suites(names)
    cases = selected(cases_of(loaded, facts=installed_facts()), pattern)
    failures = [failure for suite in loaded for failure in suite.failures]
    click.echo(_json(cases, failures) if as_json else _text(cases))
    for failure in failures:
        click.echo(f"torchmark: {failure}", err=True)
    if failures:
        sys.exit(ExitCode.CASE_FAILED)


def _text(cases: Sequence[Case]) -> str:
    # A reader of a pipe gets one line for each case, however long.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [_wrapped(_line(case), width) for case in cases]
    return "\n".join([*lines, *([""] if lines else []), summary(cases)])


def _line(case: Case) -> str:
    skip = f" (skipped: {case.skip})" if case.skip is not None else ""
    return f"{case.id}  {case.title}{skip}"


def _wrapped(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    indent = " " * 18  # under the title
    return textwrap.fill(line, max(width, 40), subsequent_indent=indent, break_on_hyphens=False)


def summary(cases: Sequence[Case]) -> str:
    """How many there are, by language and by runtime.

    >>> summary([])
    'no cases'
    """
    if not cases:
        return "no cases"
    languages = {Language.PYTHON: "Python", Language.CPP: "C++"}
    runtimes = {runtime: runtime.value for runtime in Runtime}
    total = "1 case" if len(cases) == 1 else f"{len(cases)} cases"
    parts = [
        _numbers((languages[case.language] for case in cases), languages.values()),
        _numbers((runtimes[case.runtime] for case in cases), runtimes.values()),
    ]
    skipped = sum(case.skip is not None for case in cases)
    return "; ".join([f"{total}: {parts[0]}", parts[1], *([f"{skipped} skipped"] * (skipped > 0))])


def _numbers(names: Iterable[str], order: Iterable[str]) -> str:
    counts = collections.Counter(names)
    return ", ".join(f"{counts[name]} {name}" for name in order if counts[name])


def _json(cases: Sequence[Case], failures: Sequence[SuiteFileError]) -> str:
    record: dict[str, Any] = {
        "torchmark": "cases",
        "version": 1,
        "cases": [_as_json(case) for case in cases],
        "failures": [
            {"file": failure.file, "line": failure.line, "reason": failure.reason}
            for failure in failures
        ],
    }
    return json.dumps(record, indent=2, ensure_ascii=False)


def _as_json(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "title": case.title,
        "label": case.label,
        "language": case.language.name,
        "runtime": case.runtime.value,
        "autograd": case.autograd.value,
        "num_threads": case.num_threads,
        "params": dict(case.params),
        "skip": case.skip,
        "stmt": case.stmt,
        "setup": case.setup,
        "global_setup": case.global_setup,
        "model": case.model.source if case.model else None,
    }
