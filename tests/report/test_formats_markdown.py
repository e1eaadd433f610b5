"""A view in Markdown, as GitHub reads it."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report import made_up_views
from torchmark.printable import printable
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
    assert "more rows do not fit." in text
    sections = tuple(Section(id=f"s{n}", title="x" * 400, listing=("y" * 400,)) for n in range(999))
    text = markdown.render(made_up_views.view(sections=sections))
    assert len(text) <= markdown.LIMIT
    assert re.search(r"\d+ more sections do not fit\.", text)


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


def read_by_a_person(text: str) -> tuple[str, set[str]]:
    """What Markdown shows, and the kinds of marks that are in it."""
    shown, kinds = "", set()
    for block in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        for token in block.children or [block]:
            kinds.add(token.type)
            shown += token.content
    return shown, kinds


@given(st.text(alphabet="ab1 []()!<>|`*_~\\&;:/.-+=#\"'\n", max_size=40) | st.text(max_size=40))
@example("[x](http://e.vil)")
@example("![x](http://e.vil/x.png)")
@example("[x]: http://e.vil")
@example("<img src=x onerror=1>")
@example("__torch_function__")
@example("1. first")
@example("- first")
@example("---")
@example("&lt;")
def test_a_label_is_shown_as_it_is_in_a_table_a_paragraph_and_a_list(label: str) -> None:
    table = Table(columns=(Column(name="case"),), rows=(Row(cells=cells_of([label])),))
    section = Section(id="x", title="t", paragraphs=(label,), table=table, listing=(label,))
    text = markdown.render(made_up_views.view(sections=(section,))).split("### t")[1]
    shown, kinds = read_by_a_person(text.partition("<details>")[0])
    line = " ".join(printable(label).split())
    assert shown == f"{line}case{line}{line}"
    assert not kinds & {"link_open", "image", "html_inline", "code_inline", "em_open", "s_open",
                        "strong_open", "hr", "ordered_list_open", "heading_open"}  # fmt: skip


def test_addresses_are_no_links() -> None:
    """GitHub makes links of them without brackets, where they are not escaped."""
    assert markdown.escaped("http://e.vil WWW.e.vil") == r"http\://e.vil WWW\.e.vil"
