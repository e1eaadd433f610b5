"""Which layouts are slow? Random shapes and memory orders, the same on every run.

python -m examples.fuzzer
"""

from __future__ import annotations

import sys

import torchmark as benchmark

TRIALS = 60
SHOWN = 8


def add_fuzzer() -> benchmark.Fuzzer:
    """Two tensors of 2 or 3 dimensions and up to 128 Ki elements, a quarter not contiguous."""
    return benchmark.Fuzzer(
        parameters=[
            [benchmark.FuzzedParameter(f"k{i}", 16, 16 * 1024, "loguniform") for i in range(3)],
            benchmark.FuzzedParameter("dim", distribution={2: 0.6, 3: 0.4}),
        ],
        tensors=[
            [
                benchmark.FuzzedTensor(
                    name,
                    size=("k0", "k1", "k2"),
                    dim_parameter="dim",
                    probability_contiguous=0.75,
                    min_elements=64 * 1024,
                    max_elements=128 * 1024,
                )
                for name in ("x", "y")
            ],
        ],
        seed=0,
    )


def main() -> None:
    fuzzer = add_fuzzer()
    found: list[tuple[float, str]] = []
    for done, (tensors, properties, _) in enumerate(fuzzer.take(TRIALS), start=1):
        m = benchmark.Timer("x + y", globals=tensors).blocked_autorange(min_run_time=0.05)
        shape = " x ".join(map(str, tensors["x"].shape))
        orders = [layout(properties[name]) for name in ("x", "y")]
        found.append((m.median / tensors["x"].numel(), f"{shape:<18}{orders[0]:<12}{orders[1]}"))
        print(f"\r{done} / {TRIALS}", end="", file=sys.stderr)
    print(file=sys.stderr)

    print(f"Draws for each valid shape: {1 / (1 - fuzzer.rejection_rate):.1f}\n")
    found.sort()
    show("Fastest", found[:SHOWN])
    show("Slowest", found[-SHOWN:])


def layout(properties: dict[str, object]) -> str:
    return "contiguous" if properties["is_contiguous"] else str(properties["order"])


def show(title: str, rows: list[tuple[float, str]]) -> None:
    print(f"{title:<20}{'shape':<18}{'x':<12}y\n{'-' * 64}")
    for seconds, text in rows:
        print(f"{seconds * 1e9:6.3f} ns/element   {text}")
    print()


if __name__ == "__main__":
    main()
