"""`torchmark.Sweep`: a sweep from Python, whose model may be anything that can be called."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.commands.sweeping.csv_file import KernelsFile, SweepFile, kernels_file, to_be_done
from torchmark.commands.sweeping.keeping import with_id
from torchmark.commands.sweeping.rows import filled_in
from torchmark.commands.sweeping.workers import in_this_process
from torchmark.define.sweep.points import Choice, all_cases
from torchmark.define.sweep.spec import spec_of
from torchmark.engine.environment_facts import environment_of
from torchmark.engine.local_torch import import_torch
from torchmark.errors import InvalidArgumentError
from torchmark.model.sweep_record import Phase

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from torchmark.model.sweep_record import SweepRow


class Sweep:
    """A model over input scales and job configs.

    >>> import torch
    >>> sweep = Sweep(
    ...     model=torch.nn.Linear,
    ...     model_init_params=["in_features", "out_features"],
    ...     input_params=[["batch", "in_features"]],
    ...     input_scales={"batch": [1, 8], "in_features": [16], "out_features": [4]},
    ...     job_configs=["pt fp32"],
    ... )
    >>> [(row.dims[0], row.flops) for row in sweep.run()]
    [(('batch', 1), 128), (('batch', 8), 1024)]
    """

    def __init__(
        self,
        *,
        model: Any,
        input_params: Any,
        input_scales: Any,
        model_init_params: Any = (),
        job_configs: Any = ("pt fp32",),
    ) -> None:
        self._spec = spec_of(
            model=model,
            model_init_params=model_init_params,
            input_params=input_params,
            input_scales=input_scales,
            job_configs=job_configs,
        )

    def run(
        self,
        *,
        where: str = "",
        sample: int | None = None,
        phases: Sequence[str | Phase] = (Phase.FORWARD,),
        csv: str | os.PathLike[str] | None = None,
        kernels: bool = False,
    ) -> list[SweepRow]:
        """Measure in this process, as `Timer` does, and return a row for each case.

        A case that fails is a row with its reason. With `csv` rows are appended to that file as
        they come, and what it has already is not measured again; `kernels` needs it, and writes
        a second file beside it, also of cases whose rows are there and whose kernels are not.
        """
        if kernels and csv is None:
            raise InvalidArgumentError("kernels=True writes a file beside csv; give csv too")
        choice = Choice(where=where, sample=sample, phases=tuple(map(Phase, phases)))
        cases = all_cases(self._spec, choice)
        environment: str = with_id(_environment())["id"]
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(SweepFile(Path(csv), cases, environment)) if csv else None
            beside = (
                stack.enter_context(KernelsFile(kernels_file(file.path), file.measured))
                if (kernels and file)
                else None
            )
            rows = dict(file.measured) if file else {}
            known = frozenset(rows)
            to_do = to_be_done(cases, known, beside)
            told_by = stack.enter_context(
                contextlib.closing(in_this_process(self._spec, to_do, kernels=kernels, known=known))
            )
            for case, told in told_by:
                if case.row.case_id not in known:
                    row = filled_in(case.row, told, environment)
                    rows[row.case_id] = row
                    if file:
                        file.append(row)
                if beside:
                    beside.append(case.row, told.kernels or [])
        return [rows[case.row.case_id] for case in cases]


def _environment() -> dict[str, Any]:
    from torchmark_probe.zygote.warmup import facts  # noqa: PLC0415 - it belongs to torch

    return environment_of(facts(import_torch()), Path.cwd())
