"""A view in Markdown, as GitHub reads it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.report import made_up_views
from torchmark.report.formats import markdown
from torchmark.report.view import Column, Kind, Row, Section, Table, cells_of

BEGIN = """\
**B is slower in 2 of 5 cases (worst: sum, +25.0 %), same in 3; 1 failed.**

- **Warning:** noise of one A/A replicate: 2.3 %; small changes may be missed.

- B has another compiler.

### Times

| case                                            |                A |         ratio [95 %] | verdict | replicates |
|-------------------------------------------------|-----------------:|---------------------:|---------|-----------:|
| **Pointwise**                                   |                  |                      |         |            |
| add of two tensors, broadcast along dimension 0 | 1.200 us ± 2.0 % | 1.019 [1.015, 1.024] | slower  |          5 |
| mul 0                                           | 10.00 us ± 2.0 % | 1.001 [0.997, 1.006] | same    |          5 |
| mul 1                                           | 9.000 us ± 2.0 % | 1.001 [0.997, 1.006] | same    |          5 |
| **Reductions**                                  |                  |                      |         |            |
| sum                                             | 2.500 ms ± 2.0 % | 1.250 [1.246, 1.255] | slower  |          5 |
| median                                          |                  | 1.000 [0.996, 1.005] | same    |          5 |

<details><summary>Details</summary>

**add of two tensors, broadcast along dimension 0**

Functions behind the change
"""  # noqa: E501 - a table


def test_a_whole_view() -> None:
    text = markdown.render(made_up_views.view())
    assert text.startswith(BEGIN)
    assert "| `c10::intrusive_ptr`" in text
    assert "- eig (time): does not compile: 'y' was not declared\n" in text
    about = text[text.index("<summary>Run, environments and settings</summary>") :]
    assert "| torch.version | 2.13.0 | 2.12.0 |" in about
    assert "python" not in about  # the same in both
    assert "| replicates | 5     |" in about


def test_quiet_rows_are_folded() -> None:
    text = markdown.render(made_up_views.view(quiet=30))
    first, folded = text.split("<details><summary>31 cases are the same</summary>")
    assert "mul" not in first
    assert "mul 29" in folded


def test_a_long_view_fits_a_comment_of_github() -> None:
    view = made_up_views.view(quiet=3000)
    text = markdown.render(view)
    assert len(text) <= markdown.LIMIT
    assert "more rows do not fit here." in text
    sections = tuple(Section(id=f"s{n}", title="x" * 400, listing=("y" * 400,)) for n in range(999))
    text = markdown.render(made_up_views.view(sections=sections))
    assert len(text) <= markdown.LIMIT
    assert re.search(r"\d+ more sections do not fit here\.", text)


def test_text_from_elsewhere_is_text() -> None:
    text = markdown.render(made_up_views.hostile_view())
    for tag in re.findall(r"(?<!\\)<[^>]*>", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)):
        assert tag in ("<details>", "</details>", "<summary>", "</summary>")
    assert "\x1b" not in text


def test_code_with_pipes_and_backticks_stays_in_its_cell() -> None:
    table = Table(
        columns=(Column(name="code", kind=Kind.CODE), Column(name="other")),
        rows=(Row(cells=cells_of(["a | b", "x | y"])), Row(cells=cells_of(["a `b`", "z"]))),
    )
    view = made_up_views.view(sections=(Section(id="x", title="X", table=table),))
    text = markdown.render(view)
    assert r"a \| b" in text
    assert r"x \| y" in text
    assert r"a \`b\`" in text


@given(st.text(max_size=60))
def test_an_escaped_text_is_one_line_without_markup(given: str) -> None:
    text = markdown.escaped(given)
    assert "\n" not in text
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`*]", text)
