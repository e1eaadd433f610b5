"""The figures of docs/guides/history-of-torch.md are those of the counts that are kept."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs/guides/history-of-torch.md").read_text()


def test_the_table_of_versions_is_computed_from_the_counts() -> None:
    script = runpy.run_path(str(ROOT / "metrics/torch_history.py"))
    counts = script["read_csv"]()
    versions = list(next(iter(counts.values())))
    assert [each.partition("+")[0] for each in versions] == [
        "1.13.0a0", "2.5.1", "2.9.1", "2.13.0", "2.15.0",
    ]  # fmt: skip
    _, *table = script["table_of_versions"](counts, versions)
    for line in table:
        assert line.replace("1.13.0a0 |", "1.13.0a0 (Debian's 1.13.1) |") in GUIDE
    ratios = sorted(script["ratios"](counts, versions[0], versions[-1]).values())
    assert [f"{(each - 1) * 100:+.0f}" for each in (ratios[0], ratios[-1])] == ["-43", "+58"]


def test_the_counts_in_the_examples_are_those_of_the_cases() -> None:
    counts = runpy.run_path(str(ROOT / "metrics/torch_history.py"))["read_csv"]()
    told = {
        "Data movement / zero_": (2, 3, 4),
        "Empty / no allocation": (2, 3),
        "Indexing / Tensor-Scalar / Case:  0": (3, 4),
        "nn Modules / Conv1d · Python, eager": (0, 1),
        "nn Modules / LSTM · Python, eager": (0, 1),
        "nn Modules / ReLU · Python, torchscript": (1, 2),
        "Metadata and views / reshape": (0, 1),
        "Metadata and views / size": (0, 4),
    }
    for name, places in told.items():
        (row,) = (row for title, row in counts.items() if name in title)
        for place in places:
            assert f"{[*row.values()][place]:,.0f}" in GUIDE, (name, place)
