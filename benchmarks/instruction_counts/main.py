"""The instruction-count suite by the command of seed 001: `python main.py` runs all of it.

    cd benchmarks/instruction_counts
    python main.py

Arguments are those of `torchmark run`, such as `--count`, `--no-cpp` or `-k add`.
"""

from __future__ import annotations

import sys

from torchmark.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["run"]
    main()
