"""`torchmark sweep`: a model over input scales and job configs, into one CSV."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.arguments import checked_count
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import check_writable
from torchmark.cli.run_display import display_for
from torchmark.cli.running import heed_signals
from torchmark.cli.stores import columns, store_option
from torchmark.cli.sweep_pages import write_page
from torchmark.commands.sweeping.csv_file import KernelsFile, SweepFile, kernels_file, to_be_done
from torchmark.commands.sweeping.keeping import run_of_sweep, with_id
from torchmark.commands.sweeping.roofs import roofs_of
from torchmark.commands.sweeping.rows import filled_in, result_of
from torchmark.commands.sweeping.workers import in_workers, sweep_workers
from torchmark.define.sweep.estimate import duration_text, seconds_for
from torchmark.define.sweep.points import Choice, all_cases, size_of_product
from torchmark.define.sweep.scales import setting
from torchmark.define.sweep.spec import read_spec
from torchmark.engine.environment_facts import environment_of
from torchmark.engine.reservations import own_run
from torchmark.model.run import RunState
from torchmark.model.sweep_record import Phase, RowStatus
from torchmark.report import sweep_text
from torchmark.settings import settings_for
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torchmark.define.sweep.points import SweepCase
    from torchmark.define.sweep.spec import SweepSpec
    from torchmark.engine.workers import Workers
    from torchmark.engine.zygote.zygote import Zygote
    from torchmark.model.sweep_record import SweepRow
    from torchmark.report.sweep_roofline import Roofs
    from torchmark.store import Store

_LONG = 600.0
"""Seconds after which a sweep is long: how to make it shorter is then said."""

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("sweep")
@click.argument("spec_file", metavar="SPEC.py", type=click.Path(path_type=Path))
@click.option("--csv", "csv_file", type=_file, help="The rows.  [default: SPEC.csv, here]")
@click.option("--where", default="", metavar="EXPR", help="Only cases for which this holds.")
@click.option("--set", "settings", multiple=True, metavar="DIM=…", help="Other sizes.")
@click.option("--sample", type=int, metavar="N", help="N points, drawn always alike.")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([phase.value for phase in Phase]),
    help="What a run does; may be repeated.  [default: forward]",
)
@click.option("--kernels", is_flag=True, help="Calls and times by kernel, into a second CSV.")
@click.option("--html", "html_file", type=_file, help="One page with plots.")
@store_option
@click.option("--quiet", is_flag=True, help="Show nothing but the result.")
def command(
    spec_file: Path,
    csv_file: Path | None,
    where: str,
    settings: tuple[str, ...],
    sample: int | None,
    phases: tuple[str, ...],
    kernels: bool,
    html_file: Path | None,
    place: str | None,
    quiet: bool,
) -> None:
    """Measure a model over input scales and job configs: pt, compile and ort; fp32, fp16, ….

    SPEC.py defines model, model_init_params, input_params, input_scales and job_configs. Rows are
    appended to the CSV as they come; the same command goes on with what was cut short.

    \b
    torchmark sweep linear.py --csv linear.csv --html linear.html
    torchmark sweep linear.py --set batch=1,8,64 --where "backend != 'ort'"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    check_writable([html_file])
    spec = read_spec(spec_file).with_sizes(dict(map(setting, settings)))
    choice = Choice(
        where=where,
        sample=None if sample is None else checked_count("--sample", sample),
        phases=tuple(map(Phase, phases)) or (Phase.FORWARD,),
    )
    cases = all_cases(spec, choice)
    heed_signals()
    named = place if place is not None else settings_for(Path.cwd()).store
    path = csv_file if csv_file is not None else Path(f"{spec_file.stem}.csv")
    check_writable([path])
    with open_store(named) as store, contextlib.closing(sweep_workers()) as workers:
        _announce(spec, choice, cases, path, quiet=quiet)
        done = _Sweeping(spec, cases, workers, store, quiet=quiet)
        done.into(path, kernels=kernels)
        roofs = done.roofs() if html_file is not None else None
    click.echo(sweep_text.render(done.rows, width=columns()), nl=False)
    if html_file is not None and done.rows:
        write_page(html_file, done.rows, done.environment, roofs)
    _finish(done, path)


class _Sweeping:
    """A sweep on its way, and how it ended."""

    def __init__(
        self,
        spec: SweepSpec,
        cases: Sequence[SweepCase],
        workers: Workers,
        store: Store,
        *,
        quiet: bool,
    ) -> None:
        self._spec = spec
        self._cases = cases
        self._workers = workers
        self._store = store
        self._quiet = quiet
        self._by_id: dict[str, SweepRow] = {}
        self.environment: dict[str, Any] = {}
        self.was_interrupted = False
        self.without_kernels: list[str] = []
        """Why the kernels of cases that were measured before could not be had."""

    @property
    def rows(self) -> list[SweepRow]:
        """What there is, in the order of the cases."""
        ids = (case.row.case_id for case in self._cases)
        return [self._by_id[each] for each in ids if each in self._by_id]

    def into(self, path: Path, *, kernels: bool) -> None:
        """Measure what the file lacks; every row is in it and in the store when it is shown."""
        environment = with_id(environment_of(self._zygote().start(), Path.cwd()))
        self.environment = environment
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(SweepFile(path, self._cases, environment["id"]))
            beside = (
                stack.enter_context(KernelsFile(kernels_file(path), file.measured))
                if kernels
                else None
            )
            self._by_id.update(file.measured)
            run = run_of_sweep(self._store, self._cases, environment, path, file.measured)
            known = frozenset(file.measured)
            to_do = to_be_done(self._cases, known, beside)
            self._say_what_is_there(path, known, to_do)
            state = RunState.INTERRUPTED
            stack.enter_context(own_run(run.id))
            self._store.finish(run.id, RunState.RUNNING)
            told_by = stack.enter_context(
                contextlib.closing(
                    in_workers(self._spec, to_do, self._workers, kernels=kernels, known=known)
                )
            )
            try:
                with display_for(len(to_do), quiet=self._quiet) as display:
                    for case, told in told_by:
                        if beside is not None:
                            beside.append(case.row, [vars(each) for each in told.kernels or ()])
                        if case.row.case_id in known:
                            row = self._by_id[case.row.case_id]
                            if told.status != RowStatus.MEASURED.value:
                                self.without_kernels.append(told.reason)
                            display.show(result_of(case, row, None))
                            continue
                        row = filled_in(case.row, told, environment["id"])
                        file.append(row)
                        result = result_of(case, row, told)
                        self._store.add(run.id, result)
                        self._by_id[row.case_id] = row
                        display.show(result)
                state = RunState.FINISHED
            except KeyboardInterrupt:
                self.was_interrupted = True
            finally:
                self._store.finish(run.id, state)

    def roofs(self) -> Roofs | None:
        """The best that the machine does, to be drawn beside what it did."""
        return roofs_of(self.rows, self._zygote())

    def _zygote(self) -> Zygote:
        return self._workers.started(self._cases[0].row.threads, under_callgrind=False)

    def _say_what_is_there(
        self, path: Path, known: Collection[str], to_do: Sequence[SweepCase]
    ) -> None:
        there = sum(case.row.case_id in known for case in self._cases)
        if not there or self._quiet:
            return
        without_kernels = sum(case.row.case_id in known for case in to_do)
        click.echo(
            f"{there} of {len(self._cases)} rows are in {path} already; remove it, or name "
            "another --csv, to measure them anew"
            + (f"; the kernels of {without_kernels} are added" if without_kernels else ""),
            err=True,
        )


def _announce(
    spec: SweepSpec, choice: Choice, cases: Sequence[SweepCase], path: Path, *, quiet: bool
) -> None:
    """How much it is and how long it may take, before it starts."""
    seconds = seconds_for(spec, cases)
    points, configs = size_of_product(spec, choice)
    if not quiet or seconds > _LONG:
        click.echo(
            f"{spec.model_name}: {len(cases):,} cases of {points:,} points with {configs} configs "
            f"each, about {duration_text(seconds)} for a small model, into {path}",
            err=True,
        )
    if seconds > _LONG:
        click.echo(
            "That is long: --sample N draws N points, --where and --set leave some out; what is "
            "cut short by Ctrl-C goes on with the same command.",
            err=True,
        )


def _finish(done: _Sweeping, path: Path) -> None:
    click.echo(f"{path}: {len(done.rows)} rows")
    if done.without_kernels:
        click.echo(
            f"torchmark: no kernels of {len(done.without_kernels)} rows that were there: "
            f"{done.without_kernels[0]}",
            err=True,
        )
    if done.was_interrupted:
        click.echo("torchmark: interrupted; the same command goes on from here", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    if any(row.status is RowStatus.FAILED for row in done.rows):
        sys.exit(ExitCode.CASE_FAILED)
