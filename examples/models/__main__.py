"""Trains one of the models for some steps: `python -m examples.models NAME [STEPS [SCALE]]`."""

from __future__ import annotations

import sys

from examples.models import MODELS


def main(name: str, steps: str = "3", scale: str = "1") -> None:
    step = MODELS[name](int(scale))
    for _ in range(int(steps)):
        print(f"loss {step().item():.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
