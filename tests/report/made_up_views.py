"""A view made up for tests: an A/B comparison as people read it, with a bit of everything."""

from __future__ import annotations

from typing import Any

from torchmark.report.view import (
    Cell,
    Chart,
    Column,
    Detail,
    FactTable,
    Kind,
    Mark,
    Row,
    Section,
    Table,
    View,
    cells_of,
)

HOSTILE = '</script><img src=x onerror="alert(1)">{{ 7 * 7 }}\x1b[31m'

COLUMNS = (
    Column(name="case"),
    Column(name="A", kind=Kind.SECONDS),
    Column(name="ratio [95 %]", kind=Kind.RATIO, hint="B's time over A's."),
    Column(name="verdict", kind=Kind.VERDICT),
    Column(name="replicates", kind=Kind.INTEGER, is_wide_only=True),
)
FUNCTIONS = Table(
    columns=(
        Column(name="instructions", kind=Kind.INSTRUCTIONS),
        Column(name="function", kind=Kind.CODE),
    ),
    rows=(
        Row(cells=cells_of([1204, "at::native::add_kernel(at::TensorIteratorBase&)" + "x" * 60])),
        Row(cells=cells_of([-12, "c10::intrusive_ptr"])),
    ),
)


def row(name: str, seconds: float | None, ratio: float, **fields: Any) -> Row:
    """A case that is slower from a ratio of 1.01 on, and quiet otherwise."""
    is_slower = ratio > 1.01
    cells = (
        Cell(value=name),
        Cell(value=seconds, interval=(seconds * 0.99, seconds * 1.02) if seconds else None),
        Cell(value=ratio, interval=(ratio - 0.004, ratio + 0.005)),
        Cell(value="slower" if is_slower else "same", mark=Mark.BAD if is_slower else Mark.QUIET),
        Cell(value=5),
    )
    details = (Detail(title="Functions behind the change", table=FUNCTIONS),) if is_slower else ()
    code = Detail(title="statement", code="torch.add(x, y)", is_page_only=True)
    return Row(cells=cells, is_quiet=not is_slower, details=(*details, code), **fields)


def rows(quiet: int = 2) -> tuple[Row, ...]:
    """Two that are slower, in two groups, and some that are not."""
    return (
        row("add of two tensors, broadcast along dimension 0", 1.2e-6, 1.019, group="Pointwise"),
        *(row(f"mul {at}", (10 - at) * 1e-6, 1.001, group="Pointwise") for at in range(quiet)),
        row("sum", 2.5e-3, 1.25, group="Reductions", id="case-sum"),
        row("median", None, 1.0, group="Reductions"),
    )


def table(quiet: int = 2, **fields: Any) -> Table:
    return Table(
        columns=COLUMNS, rows=rows(quiet), quiet_text=f"{quiet + 1} cases are the same", **fields
    )


def chart(**fields: Any) -> Chart:
    """Two lines with three points each."""
    values = [
        {"size": size, "seconds": size * factor * 1e-6, "backend": backend}
        for backend, factor in (("eager", 2), ("compile", 1))
        for size in (1, 8, 64)
    ]
    given = {
        "id": "scaling",
        "title": "Time by size",
        "description": "compile is faster than eager at every size.",
        "note": "Medians of one run.",
        "spec": {
            "data": {"values": values},
            "mark": {"type": "line", "point": True},
            "encoding": {
                "x": {"field": "size", "type": "quantitative", "scale": {"type": "log"}},
                "y": {"field": "seconds", "type": "quantitative"},
                "color": {"field": "backend", "type": "nominal"},
            },
        },
    }
    return Chart(**{**given, **fields})


def view(quiet: int = 2, **fields: Any) -> View:
    given: dict[str, Any] = {
        "title": "B compared with A",
        "summary": "B is slower in 2 of 5 cases (worst: sum, +25.0 %), same in 3; 1 failed.",
        "lead": ("Run 20261115-221530-a1b2c3, finished", "torch 2.13.0, Fast One, 2 cores"),
        "warnings": ("noise of one A/A replicate: 2.3 %; small changes may be missed.",),
        "notes": ("B has another compiler.",),
        "sections": (
            Section(
                id="times",
                title="Times",
                table=table(quiet),
                footnotes=("replicate: a fresh launch of both environments.",),
            ),
            Section(id="charts", title="Charts", chart=chart(), is_page_only=True),
            Section(
                id="failed",
                title="Failed",
                mark=Mark.BAD,
                listing=("eig (time): does not compile:\n  'y' was not declared",),
            ),
        ),
        "environments": FactTable(
            names=("A", "B"),
            facts=(("torch.version", ("2.13.0", "2.12.0")), ("python", ("3.11", "3.11"))),
        ),
        "settings": (("replicates", "5"),),
        "data": table(quiet),
    }
    return View(**{**given, **fields})


def find_section(view: View, section_id: str) -> Section | None:
    return next((each for each in view.sections if each.id == section_id), None)


def hostile_view() -> View:
    """Every text from elsewhere tries to be HTML, a script, a template and an escape."""
    detail = Detail(title=HOSTILE, code=HOSTILE, lines=(HOSTILE,), table=FUNCTIONS)
    cells = tuple(Cell(value=HOSTILE, hint=HOSTILE) for _ in COLUMNS)
    bad = Table(
        columns=tuple(Column(name=HOSTILE, hint=HOSTILE) for _ in COLUMNS),
        rows=(Row(cells=cells, group=HOSTILE, details=(detail,)),),
    )
    values = [{"name": HOSTILE, "size": 1}, {"name": "other", "size": 2}]
    spec = {
        "data": {"values": values},
        "mark": "point",
        "encoding": {
            "x": {"field": "size", "type": "quantitative"},
            "color": {"field": "name", "type": "nominal"},
        },
    }
    return View(
        title=HOSTILE,
        summary=HOSTILE,
        lead=(HOSTILE,),
        warnings=(HOSTILE,),
        notes=(HOSTILE,),
        sections=(
            Section(
                id="all",
                title=HOSTILE,
                paragraphs=(HOSTILE,),
                chart=chart(title=HOSTILE, description=HOSTILE, note=HOSTILE, spec=spec),
                table=bad,
                listing=(HOSTILE,),
                footnotes=(HOSTILE,),
            ),
        ),
        environments=FactTable(names=("A", HOSTILE), facts=((HOSTILE, (HOSTILE, "x")),)),
        settings=((HOSTILE, HOSTILE),),
        data=bad,
    )
