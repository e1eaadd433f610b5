"""The instruction counts of the standard suite with several versions of torch, as tables.

    python metrics/torch_history.py                  # tables of docs/guides/history-of-torch.md
    python metrics/torch_history.py --store FILE     # first write torch_history.csv from a store

The store has one `torchmark run --count` for each version. The CSV has a row for each case and a
column for each version, so that the figures of the guide can be checked without the store.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from torchmark.analyse.score import CaseRatio, score_of
from torchmark.files import write_whole
from torchmark.model.case import Case
from torchmark.model.series import Quantity, release_of
from torchmark.report.figures import change_text
from torchmark.store import open_store

FILE = Path(__file__).with_name("torch_history.csv")

LISTED = 6
"""Changes of each sign that are printed for a pair of versions."""

Counts: TypeAlias = Mapping[str, Mapping[str, float]]
"""Instructions of one run, by the title of the case and the version of torch."""


def read_store(place: str) -> Counts:
    with open_store(place, read_only=True) as store:
        return {
            each.case.title: {point.origin.torch or "": point.value for point in each.points}
            for each in store.series(quantities=[Quantity.INSTRUCTIONS])
        }


def write_csv(counts: Counts) -> None:
    versions = list(dict.fromkeys(each for row in counts.values() for each in row))
    order = sorted(versions, key=release_of)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", *order])
    for title, row in counts.items():
        writer.writerow([title, *(f"{row[each]:.10g}" if each in row else "" for each in order)])
    write_whole(FILE, text.getvalue().encode())


def read_csv() -> Counts:
    with FILE.open(newline="") as file:
        return {
            row.pop("case"): {version: float(count) for version, count in row.items() if count}
            for row in csv.DictReader(file)
        }


def ratios(counts: Counts, before: str, after: str) -> dict[str, float]:
    """The counts of one version over those of another, for the cases that both have."""
    return {
        title: row[after] / row[before]
        for title, row in counts.items()
        if row.get(before) and row.get(after)
    }


def score(counts: Counts, before: str, after: str) -> float:
    """The geometric mean of the ratios."""
    found = ratios(counts, before, after).items()
    cases = [CaseRatio(case=Case(label=(title,), stmt=""), ratio=ratio) for title, ratio in found]
    whole = score_of(cases)
    return math.nan if whole is None else whole.ratio


def table_of_versions(counts: Counts, versions: Sequence[str]) -> Iterator[str]:
    common = [row for row in counts.values() if all(each in row for each in versions)]
    yield f"{len(common)} of {len(counts)} cases have a count with every version"
    yield "| torch | cases | sum of counts | score | change | fewer | same | more |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for before, version in zip(["", *versions], versions, strict=False):
        total = sum(row[version] for row in common)
        line = [version, f"{sum(version in row for row in counts.values())}", f"{total:,.0f}"]
        line.append(f"{score(counts, versions[0], version):.3f}")
        found = list(ratios(counts, before, version).values()) if before else []
        line.append(change_text(score(counts, before, version) - 1) if before else "")
        for sign in (-1, 0, 1):
            line.append(str(sum(sign_of(each) == sign for each in found)) if before else "")
        yield f"| {' | '.join(line)} |"


def sign_of(ratio: float) -> int:
    return (ratio > 1) - (ratio < 1)


def largest(counts: Counts, before: str, after: str) -> Iterator[str]:
    found = sorted(ratios(counts, before, after).items(), key=lambda each: each[1])
    yield f"{before} to {after}: fewest and most"
    chosen = [*found[:LISTED], *found[-LISTED:]]
    for title, ratio in chosen:
        old, new = counts[title][before], counts[title][after]
        yield f"  {change_text(ratio - 1):>9}  {old:>10,.0f} → {new:>10,.0f}  {title}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", help="write torch_history.csv from this store first")
    place = parser.parse_args().store
    if place:
        write_csv(read_store(place))
    counts = read_csv()
    versions = list(dict.fromkeys(each for row in counts.values() for each in row))
    for line in table_of_versions(counts, versions):
        print(line)
    for before, after in itertools.pairwise(versions):
        print()
        for line in largest(counts, before, after):
            print(line)


if __name__ == "__main__":
    main()
