"""`torchmark doctor`: what is on this machine, and what each missing part would give."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from torchmark import __version__
from torchmark.cli.exit_codes import ExitCode
from torchmark.engine.machine import (
    describe_machine,
    find_tool,
    first_line_of,
    import_torch,
    why_py_spy_cannot_attach,
)
from torchmark.engine.pace import measure_noise, path
from torchmark.errors import MissingTorchError
from torchmark_probe.loops.clocks import clock_facts, wall_clock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Finding(NamedTuple):
    """One line of the report."""

    part: str
    """What was looked for."""

    state: str
    """"ok", "missing" or "look"."""

    text: str
    """What was found, or what the missing part would give and how to get it."""


@click.command("doctor")
def command() -> None:
    """Say what is on this machine and what each missing part would give.

    The exit code is 4 if torch is missing, because nothing can be measured without it.
    """
    worst = ExitCode.FINE
    for finding in findings():
        click.echo(f"{finding.part:<10} {finding.state:<8} {finding.text}")
        if finding.part == "torch" and finding.state == "missing":
            worst = ExitCode.ENVIRONMENT
    sys.exit(worst)


def findings() -> Iterator[Finding]:
    """Quick ones first; each is given as soon as it is known."""
    python = f"{platform.python_version()} at {sys.executable}"
    yield Finding("torchmark", "ok", f"{__version__}, Python {python}")
    yield from _torch()
    yield _valgrind()
    yield _compiler()
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
        "ok" if facts.resolution < 1e-6 else "look",
        f"steps of {facts.resolution * 1e9:.0f} ns, {facts.cost * 1e9:.0f} ns a reading",
    )


def _valgrind() -> Finding:
    path = find_tool("valgrind")
    if path is None:
        gives = "would count instructions: apt-get install valgrind"
        return Finding("valgrind", "missing", gives)
    return Finding("valgrind", "ok", f"{first_line_of(path, '--version')} at {path}")


def _compiler() -> Finding:
    path = find_tool("g++") or find_tool("c++") or find_tool("clang++")
    if path is None:
        gives = "would time C++ statements and let torch.compile work: apt-get install g++"
        return Finding("compiler", "missing", gives)
    return Finding("compiler", "ok", f"{first_line_of(path, '--version')} at {path}")


def _py_spy() -> Finding:
    path = find_tool("py-spy")
    if path is None:
        gives = "would draw flame graphs: pip install 'torchmark[flame]'"
        return Finding("py-spy", "missing", gives)
    reason = why_py_spy_cannot_attach(path)
    version = first_line_of(path, "--version")
    if reason is None:
        return Finding("py-spy", "ok", f"{version} at {path}, may attach to processes")
    remedy = "allow it with: sudo sysctl kernel.yama.ptrace_scope=0"
    return Finding("py-spy", "look", f"{version} may not attach ({reason}); {remedy}")


def _cores() -> Finding:
    machine = describe_machine()
    usable, load = machine["usable_cores"], machine["load"]
    busy = load > 0.5 * usable
    advice = "; others use them, close what you can" if busy else ""
    text = f"{usable} usable, load {load:.2f}{advice}"
    return Finding("cores", "look" if busy else "ok", text)


def _noise() -> Finding:
    noise = measure_noise()
    if noise.disturbed == 1.0:
        text = f"the core never had its best known pace; if it has become slower, remove {path()}"
        return Finding("noise", "look", text)
    text = (
        f"the core was slowed in {noise.disturbed:.0%} of a second, "
        f"otherwise steady within {noise.spread:.1%}"
    )
    return Finding("noise", "look" if noise.disturbed > 0.2 else "ok", text)
