"""`list`, `summary` and `doctor`: show what can be measured, and with which tools.

`list` shows the cases of suites and `summary` the operators of a trace. Neither runs them. `doctor`
shows the tools and the noise of this machine.
"""

from __future__ import annotations

import collections
import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from torchmark import __version__
from torchmark.analyse.trace_summary import summarise_trace
from torchmark.capture.traces.loading import load_trace
from torchmark.cli.shell import ExitCode, columns, echo, import_from_here, warn
from torchmark.commands.planning import default_suites, installed_facts, load_suites
from torchmark.define.selection import selected
from torchmark.define.suites.loading import cases_of
from torchmark.engine.machine import (
    describe_machine,
    find_tool,
    first_line_of,
    import_torch,
    why_py_spy_cannot_attach,
)
from torchmark.engine.pace import measure_noise, path
from torchmark.errors import InvalidArgumentError, MissingTorchError, SuiteFileError
from torchmark.model.case import Case, Language, Runtime
from torchmark.report import render_view
from torchmark.report.views.trace_summary import make_record, make_view
from torchmark.settings import settings_for
from torchmark_probe.loops.clocks import clock_facts, wall_clock


@click.command("list")
@click.argument("suites", metavar="[SUITE…]", nargs=-1)
@click.option(
    "-k",
    "pattern",
    metavar="PATTERN",
    default="",
    help="List only cases with these words, e.g. 'add and not C++'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the cases with their code as JSON.")
def list_command(suites: tuple[str, ...], pattern: str, as_json: bool) -> None:
    """List the cases of suites: their ids and titles.

    SUITE is `standard`, `overrides`, a Python file, a folder of bench_*.py files, a trace or a
    module. The default is the suites in the settings, or `standard`. If a file cannot be loaded,
    the error is printed, the other cases are listed, and the exit code is 3.

    \b
    torchmark list
    torchmark list -k "add and not C++"
    torchmark list my_benchmarks/ bench_extra.py
    """
    import_from_here()
    names = suites or default_suites(settings_for(Path.cwd()))
    loaded = load_suites(names)
    cases = selected(cases_of(loaded, facts=installed_facts()), pattern)
    failures = [failure for suite in loaded for failure in suite.failures]
    if not cases and not failures:  # `run` refuses this too
        raise InvalidArgumentError(
            f"no case of {', '.join(names)} matches {pattern!r}; leave -k out to list all cases"
        )
    echo(_json(cases, failures) if as_json else _text(cases))
    for failure in failures:
        warn(str(failure))
    if failures:
        sys.exit(ExitCode.CASE_FAILED)


def _text(cases: Sequence[Case]) -> str:
    # In a pipe each case is one line, however long.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [_wrapped(_line(case), width) for case in cases]
    return "\n".join([*lines, *([""] if lines else []), count_cases(cases)])


def _line(case: Case) -> str:
    skip = f" (skipped: {case.skip})" if case.skip is not None else ""
    return f"{case.id}  {case.title}{skip}"


def _wrapped(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    indent = " " * 18  # under the title
    return textwrap.fill(line, max(width, 40), subsequent_indent=indent, break_on_hyphens=False)


def count_cases(cases: Sequence[Case]) -> str:
    """Count the cases by language and by runtime.

    >>> count_cases([])
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
    return json.dumps(record, indent=2)


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


@click.command("summary")
@click.argument("trace", metavar="TRACE")
@click.option("--json", "as_json", is_flag=True, help="Print the whole summary as JSON.")
def summary_command(trace: str, as_json: bool) -> None:
    """Show the operators of a trace: how often each is called, in which phase and module.

    TRACE is a file from `torchmark capture`, a text file with Operator: and cnt: lines, or the JSON
    file of PyTorch's ExecutionTraceObserver. It may be compressed with gzip. Nothing is run, and
    torch is not needed.

    \b
    torchmark summary trace.jsonl.gz
    torchmark summary trace.jsonl.gz --json | jq .operators
    """
    summary = summarise_trace(load_trace(trace))
    if as_json:
        echo(json.dumps(make_record(summary, trace), indent=2))
    else:
        echo(render_view(make_view(summary, trace), "text", columns()), nl=False)


class Finding(NamedTuple):
    """One line of `torchmark doctor`."""

    part: str
    """What was checked."""

    state: str
    """"ok", "missing", or "check": it can be used, but something about it needs attention."""

    text: str
    """What was found, or what the missing part is for and how to install it."""


@click.command("doctor")
def doctor_command() -> None:
    """Check what torchmark finds on this machine, and what is missing.

    Each line shows a part, its state and details. The state is ok, missing (the line says what the
    part is for and how to install it) or check (it works, but needs your attention). The exit code
    is 4 if torch is missing, because nothing can be measured without it.
    """
    worst = ExitCode.FINE
    for finding in _examine_machine():
        echo(f"{finding.part:<10} {finding.state:<8} {finding.text}")
        if finding.part == "torch" and finding.state == "missing":
            worst = ExitCode.ENVIRONMENT
    sys.exit(worst)


def _examine_machine() -> Iterator[Finding]:
    """Yield each finding as soon as it is known, the quick ones first."""
    python = f"{platform.python_version()} at {sys.executable}"
    yield Finding("torchmark", "ok", f"{__version__}, Python {python}")
    yield from _torch()
    counts = "needed to count instructions: apt-get install valgrind"
    yield _describe_tool("valgrind", find_tool("valgrind"), counts)
    compiler = find_tool("g++") or find_tool("c++") or find_tool("clang++")
    compiles = "needed for C++ statements and for torch.compile: apt-get install g++"
    yield _describe_tool("compiler", compiler, compiles)
    yield _py_spy()
    yield _cores()
    yield _noise()


def _torch() -> Iterator[Finding]:
    try:
        torch = import_torch()
    except MissingTorchError as error:
        yield Finding("torch", "missing", str(error))
        return
    clock = wall_clock(torch)
    accelerator = "with an accelerator" if clock.__name__ == "synchronised_clock" else "CPU only"
    threads = torch.get_num_threads()
    yield Finding(
        "torch", "ok", f"{torch.__version__}, {accelerator}, {threads} threads by default"
    )
    facts = clock_facts(clock)
    yield Finding(
        "clock",
        "ok" if facts.resolution < 1e-6 else "check",
        f"resolution {facts.resolution * 1e9:.0f} ns, a reading takes {facts.cost * 1e9:.0f} ns",
    )


def _describe_tool(part: str, path: str | None, gives: str) -> Finding:
    if path is None:
        return Finding(part, "missing", gives)
    return Finding(part, "ok", f"{first_line_of(path, '--version')} at {path}")


def _py_spy() -> Finding:
    path = find_tool("py-spy")
    draws = "needed for flame graphs of times: pip install 'torchmark[flame]'"
    finding = _describe_tool("py-spy", path, draws)
    if path is None:
        return finding
    reason = why_py_spy_cannot_attach(path)
    if reason is None:
        return finding._replace(text=f"{finding.text}, can attach to processes")
    version = first_line_of(path, "--version")
    remedy = "allow it with: sudo sysctl kernel.yama.ptrace_scope=0"
    return Finding("py-spy", "check", f"{version} cannot attach ({reason}); {remedy}")


def _cores() -> Finding:
    machine = describe_machine()
    usable, load = machine["usable_cores"], machine["load"]
    busy = load > 0.5 * usable
    advice = "; other programs are using them, close what you can" if busy else ""
    return Finding("cores", "check" if busy else "ok", f"{usable} usable, load {load:.2f}{advice}")


def _noise() -> Finding:
    noise = measure_noise()
    if noise.disturbed == 1.0:
        text = (
            "the core never reached its best known speed; close programs that may be using it. "
            f"If the machine has become slower, remove {path()}, which records that speed"
        )
        return Finding("noise", "check", text)
    text = (
        f"the core was slowed for {noise.disturbed:.0%} of one second, "
        f"otherwise steady within {noise.spread:.1%}"
    )
    return Finding("noise", "check" if noise.disturbed > 0.2 else "ok", text)
