"""Runs ruptures and Apache Otava on series from standard input; for `metrics/change_points.py`.

Both are run with several settings. Series come as a list of lists of values in JSON; what goes to
standard output is, for each setting, a list with the indices of changes for each series.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np


def scaled(values: list[float]) -> Any:
    """Logarithms divided by their noise, by the differences of neighbours."""
    logs = np.log(np.asarray(values))
    noise = np.median(np.abs(np.diff(logs))) / 0.6745 / np.sqrt(2)
    return (logs - np.median(logs)) / max(noise, 1e-9)


def with_ruptures(series: list[list[float]]) -> dict[str, list[list[int]]]:
    import ruptures

    found: dict[str, list[list[int]]] = {}
    signals = [scaled(values) for values in series]
    clipped = [np.clip(each, -12, 12) for each in signals]

    def add(name: str, make: Any, penalties: list[float], prepared: list[Any]) -> None:
        fitted = [make().fit(signal) for signal in prepared]
        for penalty in penalties:
            key = f"ruptures {name}, penalty {penalty:g}"
            found[key] = [
                [int(at) for at in each.predict(pen=penalty * np.log(len(signal)))[:-1]]
                for each, signal in zip(fitted, prepared, strict=True)
            ]

    weights = [1.5, 2, 3, 4, 6, 8, 11, 15, 20, 30, 45, 70]
    add("PELT l2", lambda: ruptures.Pelt(model="l2", min_size=3, jump=1), weights, signals)
    add("PELT l2 clipped", lambda: ruptures.Pelt(model="l2", min_size=3, jump=1), weights, clipped)
    add("PELT normal", lambda: ruptures.Pelt(model="normal", min_size=4, jump=1), weights, signals)
    add("binary segmentation l1", lambda: ruptures.Binseg(model="l1", min_size=3, jump=1),
        weights, signals)  # fmt: skip
    small = [0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5]
    add("kernel rbf", lambda: ruptures.KernelCPD(kernel="rbf", min_size=3), small, signals)
    return found


def with_otava(series: list[list[float]]) -> dict[str, list[list[int]]]:
    from otava.analysis import compute_change_points

    found: dict[str, list[list[int]]] = {}
    for window in (30, 50):
        for p_value in (0.01, 0.001, 0.0001, 0.00001):
            for magnitude in (0.0, 0.004):
                name = f"otava, window {window}, p {p_value:g}, least {magnitude:g}"
                results = []
                for values in series:
                    points, _ = compute_change_points(
                        np.asarray(values), window_len=window, max_pvalue=p_value,
                        min_magnitude=magnitude,
                    )  # fmt: skip
                    results.append([int(each.index) for each in points])
                found[name] = results
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    series = json.load(sys.stdin)
    json.dump({**with_ruptures(series), **with_otava(series)}, sys.stdout)


if __name__ == "__main__":
    main()
