"""Runs ruptures and Apache Otava on series from standard input; for `metrics/change_points.py`.

Standard input has {"series": lists of values, "settings": names or null for all}. Standard output
has the indices of the changes of each series, for each setting.

ruptures gets logarithms divided by their noise, so that one penalty suits all series; its kernel
"linear" is the search with least squares.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import ruptures  # type: ignore[import-not-found]
from otava.analysis import compute_change_points  # type: ignore[import-not-found]

PENALTIES = {
    "least squares": (2, 3, 4, 6, 8, 11, 15, 20, 30, 45, 70),
    "least squares, clipped": (2, 3, 4, 5, 6, 8, 10, 12, 15, 20),
    "rbf": (0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3),
    "binary segmentation": (1, 2, 3, 4, 6, 10),
    "normal": (2, 4, 8),
}
"""Times the logarithm of the length of the series."""


def scaled(values: list[float]) -> Any:
    """Logarithms divided by their noise, by the differences of neighbours."""
    logs = np.log(np.asarray(values))
    noise = np.median(np.abs(np.diff(logs))) / 0.6745 / np.sqrt(2)
    return (logs - np.median(logs)) / max(noise, 1e-9)


def clipped(values: list[float]) -> Any:
    """The same, with outliers pulled in towards a running median, as torchmark does."""
    signal = scaled(values)
    padded = np.pad(signal, 3, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7), axis=1)
    return middle + np.clip(signal - middle, -3, 3)


SEARCHES: dict[str, tuple[Callable[[], Any], Callable[[list[float]], Any]]] = {
    "least squares": (lambda: ruptures.KernelCPD(kernel="linear", min_size=3), scaled),
    "least squares, clipped": (lambda: ruptures.KernelCPD(kernel="linear", min_size=3), clipped),
    "rbf": (lambda: ruptures.KernelCPD(kernel="rbf", min_size=3), scaled),
    "binary segmentation": (lambda: ruptures.Binseg(model="l1", min_size=3, jump=1), scaled),
    "normal": (lambda: ruptures.Pelt(model="normal", min_size=4, jump=1), scaled),
}


def with_ruptures(search: str, penalty: float, values: list[float]) -> list[int]:
    make, prepare = SEARCHES[search]
    signal = prepare(values)
    found = make().fit(signal).predict(pen=penalty * np.log(len(signal)))
    return [int(at) for at in found[:-1]]


def with_otava(window: int, p_value: float, magnitude: float, values: list[float]) -> list[int]:
    try:
        points, _ = compute_change_points(
            values, window_len=window, max_pvalue=p_value, min_magnitude=magnitude
        )
    except ValueError:  # version 0.8.0 raises it for some series
        return []
    return [int(each.index) for each in points]


def settings() -> Iterator[tuple[str, Callable[[list[float]], list[int]]]]:
    for search, penalties in PENALTIES.items():
        for penalty in penalties:
            name = f"ruptures: {search}, penalty {penalty:g} log n"
            yield name, partial(with_ruptures, search, penalty)
    for window in (30, 50):
        for p_value in (0.01, 0.001, 0.0001, 0.00001):
            for magnitude in (0.0, 0.004):
                name = f"otava: window {window}, p {p_value:g}, least {magnitude:g}"
                yield name, partial(with_otava, window, p_value, magnitude)


def main() -> None:
    warnings.simplefilter("ignore")
    given = json.load(sys.stdin)
    chosen = given["settings"]
    found = {
        name: [find(values) for values in given["series"]]
        for name, find in settings()
        if chosen is None or name in chosen
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
