"""Three small cases that torch's developers do not change: they show what else is different.

Where plain Python, a product of matrices or an empty tensor takes another number of instructions,
the two environments differ in their Python, in their BLAS or in how torch was compiled, and the
differences of other cases are not those of the change that is being tested alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchmark.analyse.ab import judge_counts
from torchmark.engine.paired.counting import Counting
from torchmark.engine.zygote.cases import PythonCase
from torchmark.model.case import Case
from torchmark.model.result import Metric, PairedCounts
from torchmark.model.run import PlannedResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.environment import Environment
    from torchmark.model.result import Result

_TORCH = {"torch": {"kind": "import", "value": "torch"}}

_NOTABLE = 0.005
"""A share above what layouts move."""


class _Sentry(NamedTuple):
    """A case, and what its difference means."""

    case: Case
    what: str
    meaning: str

    fact: re.Pattern[str]
    """Finds in what an environment says of itself what may explain it."""


_SENTRIES = (
    _Sentry(
        Case(label=("sentry", "Python"), stmt="b = [a + 1, str(a)]", setup="a = 41"),
        "plain Python",
        "another Python",
        re.compile(r"^(Python [\d.]+)"),
    ),
    _Sentry(
        Case(
            label=("sentry", "BLAS"),
            stmt="torch.mm(x, x, out=y)",
            setup="x = torch.ones((64, 64)); y = torch.ones((64, 64))",
        ),
        "a product of 64x64 matrices",
        "another BLAS",
        re.compile(r"(BLAS_INFO=\w+)"),
    ),
    _Sentry(
        Case(label=("sentry", "compiler"), stmt="x.data_ptr()", setup="x = torch.ones(1)"),
        "asking a tensor for its address",
        "another compiler or other build flags",
        re.compile(r"- ((?:GCC|[Cc]lang) [\d.]+)"),
    ),
)


def sentries() -> list[Counting]:
    """What is counted in both environments beside the suite."""
    found = []
    for sentry in _SENTRIES:
        ready = PythonCase(stmt=sentry.case.stmt, setup=sentry.case.setup, globals=_TORCH)
        planned = PlannedResult(case=sentry.case, metric=Metric.INSTRUCTIONS)
        found.append(Counting(planned=planned, a=ready, b=ready, is_rough=True))
    return found


def remarks_of(counted: Sequence[Result], a: Environment, b: Environment) -> list[str]:
    """A sentence for each sentry that differs, with the facts that may explain it."""
    by_case = {each.case.id: each for each in counted if isinstance(each.payload, PairedCounts)}
    remarks = []
    for sentry in _SENTRIES:
        each = by_case.get(sentry.case.id)
        row = judge_counts(each) if each is not None else None
        if row is None or abs(row.share) <= _NOTABLE:
            continue
        remarks.append(
            f"{sentry.what} takes {row.share * 100:+.1f} % instructions in {b.name}: "
            f"{sentry.meaning} ({_fact(sentry, a)}, {_fact(sentry, b)}), so not every difference "
            "below comes from torch's source"
        )
    return remarks


def _fact(sentry: _Sentry, environment: Environment) -> str:
    facts = environment.facts
    text = f"Python {facts.get('python', '')}\n{facts.get('torch', {}).get('config', '')}"
    said = sentry.fact.search(text)
    return f"{environment.name}: {said.group(1) if said else 'does not say'}"
