"""A case as it stands in the JSON of runs and of results.

What is read is data and is checked field by field, as in `measurement_json`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from torchmark.errors import RecordFileError
from torchmark.model.case import Autograd, Case, Runtime, ScriptedModel
from torchmark.model.language import Language


class CaseRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The fields of a Case; part of the records of runs and results."""

    label: tuple[str, ...]
    stmt: str
    setup: str
    global_setup: str
    language: str
    """The name of the Language: "PYTHON" or "CPP"."""

    runtime: Runtime
    autograd: Autograd
    num_threads: Annotated[int, msgspec.Meta(ge=1)]
    params: tuple[tuple[str, str], ...]
    model: str | None
    """The source of the scripted model."""

    skip: str | None


def record_of(case: Case) -> CaseRecord:
    return CaseRecord(
        label=case.label,
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        language=case.language.name,
        runtime=case.runtime,
        autograd=case.autograd,
        num_threads=case.num_threads,
        params=case.params,
        model=case.model.source if case.model else None,
        skip=case.skip,
    )


def case_of(record: CaseRecord) -> Case:
    if record.language not in Language.__members__:
        raise RecordFileError(
            f"the language of case {'/'.join(record.label)!r} is {record.language!r}; "
            f"this torchmark knows {', '.join(Language.__members__)}"
        )
    return Case(
        label=record.label,
        stmt=record.stmt,
        setup=record.setup,
        global_setup=record.global_setup,
        language=Language[record.language],
        runtime=record.runtime,
        autograd=record.autograd,
        num_threads=record.num_threads,
        params=record.params,
        model=None if record.model is None else ScriptedModel(source=record.model),
        skip=record.skip,
    )
