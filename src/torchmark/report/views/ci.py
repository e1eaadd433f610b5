"""The view of `torchmark ci`: the verdict first, then what is over its limits, the rest folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchmark.analyse.ab import judge, pairs_of
from torchmark.analyse.gate import Gate, Outcome
from torchmark.analyse.score import SHARED, count_ratios, score_of, time_ratios
from torchmark.model.run import RunKind
from torchmark.report import view_of
from torchmark.report.view import Section, View, data_table
from torchmark.report.views import gate as gate_view
from torchmark.report.views.score import score_text

TITLE = "Pull request"

_SCORES = ("score", "count-score")
"""Sections of an A/B report that stay open: the headline figures."""


def make_view(gate: Gate, *, fails: bool, lead: Sequence[str], notes: Sequence[str]) -> View:
    """The view of what the gate says; `fails` is whether the pull request fails."""
    judged = gate_view.make_view(gate)
    # The report of an A/B run has sections with these names too.
    sections = [replace(each, id=f"gate-{each.id}") for each in judged.sections]
    view = replace(
        judged,
        title=TITLE,
        lead=(*lead, *judged.lead),
        summary=f"{_verdict(gate, fails=fails)}: {judged.summary}{_score_texts(gate)}",
        notes=(*notes, *judged.notes),
        sections=tuple(sections),
    )
    if gate.run.kind is not RunKind.AB:
        return view
    compared = view_of(gate.run)
    return replace(
        view,
        warnings=compared.warnings,
        notes=(*view.notes, *(note for note in compared.notes if note not in view.notes)),
        sections=(*view.sections, *_scores_first(compared.sections)),
        environments=compared.environments,
        settings=compared.settings,
    )


def view_without_cases(why: str, *, lead: Sequence[str], notes: Sequence[str]) -> View:
    """The view if nothing was measured, because no case can be affected."""
    return View(
        title=TITLE,
        lead=tuple(lead),
        summary=f"Passed: no case can be affected ({why}).",
        notes=tuple(notes),
        data=data_table((), ()),
    )


def _verdict(gate: Gate, *, fails: bool) -> str:
    if fails:
        return "Failed"
    if gate.rows_with(Outcome.BROKEN):
        return "A case failed"
    return "Passed" if gate.was_judged else "Not judged"


def _score_texts(gate: Gate) -> str:
    """The scores of a comparison, in short sentences."""
    if gate.run.kind is not RunKind.AB:
        return ""
    told = ""
    for pair in pairs_of(gate.run):
        judged = judge(gate.run, pair)
        scores = {
            "Times": score_of(time_ratios(judged), shared=SHARED),
            "Instructions": score_of(count_ratios(judged)),
        }
        for name, score in scores.items():
            told += f" {name}: {score_text(score)}." if score is not None else ""
    return told


def _scores_first(sections: Sequence[Section]) -> list[Section]:
    """The scores, and then everything else, folded."""
    folded = [replace(each, is_folded=True) for each in sections if each.id not in _SCORES]
    return [*(each for each in sections if each.id in _SCORES), *folded]
