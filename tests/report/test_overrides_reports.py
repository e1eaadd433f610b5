"""The report on the cost of overrides, as Markdown and as a page."""

from __future__ import annotations

from tests import records
from tests.ab_records import comparison, timed
from torchmark.analyse.ab import understood
from torchmark.model.case_flames import CaseFlames
from torchmark.report import overrides_markdown, overrides_page
from torchmark.report.overrides_files import picture_name

PLAIN = records.case("overrides", "torch.add", "Tensor", stmt="torch.add(x, y)")
SUB = records.case("overrides", "torch.add", "SubTensor", stmt="torch.add(x, y)")
SLOWER = understood(comparison(timed(PLAIN, 1.0), timed(SUB, 1.08)))
FLAMES = CaseFlames(case=SUB, base="<svg>b</svg>", branch="<svg>f</svg>", difference="<svg>d</svg>")


def test_the_markdown_names_what_got_slower_and_shows_its_pictures() -> None:
    text = overrides_markdown.render(SLOWER, [FLAMES])
    lead, _, rest = text.partition("<details>")
    assert "SubTensor" in lead
    assert "slower" in lead
    changes = [line for line in lead.splitlines() if line.startswith("| ")]
    assert not any("/ Tensor" in line for line in changes), "only what has changed is in sight"
    for which in ("base", "branch", "difference"):
        assert f"![{which}]({which}-torch.add-SubTensor.png)" in rest


def test_the_page_has_the_pictures_in_it() -> None:
    page = overrides_page.render(SLOWER, [FLAMES])
    flames = page.partition('id="flames"')[2]
    assert [flames.count(svg) for svg in FLAMES.named().values()] == [1, 1, 1]
    assert "overrides / torch.add / SubTensor" in flames
    assert "src=" not in page


def test_without_flame_graphs_there_is_no_section_for_them() -> None:
    assert "Flame graphs" not in overrides_markdown.render(SLOWER, [])
    assert "Flame graphs" not in overrides_page.render(SLOWER, [])


def test_what_could_not_be_drawn_is_told() -> None:
    problem = "flame graphs of <x>: py-spy is missing;\n  install it"
    assert "py-spy is missing; install it" in overrides_markdown.render(SLOWER, [], [problem])
    page = overrides_page.render(SLOWER, [], [problem])
    assert "flame graphs of &lt;x&gt;: py-spy is missing" in page


def test_a_case_with_odd_labels_has_a_plain_file_name() -> None:
    odd = records.case("overrides", "../a b/c", "d;e", stmt="pass")
    assert picture_name("base", odd, "svg") == "base-a-b-c-d-e.svg"
    assert (
        picture_name("branch", records.case("sum(x)", stmt="sum(x)"), "png") == "branch-sum-x.png"
    )
