"""The instruction-count suite by the commands of seeds 000 and 001.

    cd benchmarks/instruction_counts
    python main.py
    python main.py --mode A/B --A "source activate base" --B "source activate branch"

Without `--mode` arguments are those of `torchmark run`, such as `--count` or `-k add`; with
`--mode A/B` those of `torchmark ab`. `--patch_a`, `--patch_b`, `--no_cpp` and `--backtesting` are
other names of `--patch-a`, `--patch-b`, `--no-cpp` and `--backtest`.
"""

from __future__ import annotations

import sys

from torchmark.cli import main

_SPELLINGS = {
    "--patch_a": "--patch-a",
    "--patch_b": "--patch-b",
    "--no_cpp": "--no-cpp",
    "--backtesting": "--backtest",
}


def arguments_for_torchmark(given: list[str]) -> list[str]:
    """The arguments of the command line that does what was asked.

    >>> arguments_for_torchmark(["--mode", "A/B", "--A", "true", "--patch_a", "--backtesting"])
    ['ab', '--A', 'true', '--patch-a', '--backtest']
    >>> arguments_for_torchmark(["--no_cpp"])
    ['run', '--no-cpp']
    """
    command, rest = "run", []
    waiting = iter(given)
    for word in waiting:
        name, is_joined, value = word.partition("=")
        if name != "--mode":
            rest.append(_SPELLINGS.get(word, word))
            continue
        mode = value if is_joined else next(waiting, "")
        if mode.upper() not in ("A/B", "AB"):
            sys.exit(f"main.py: --mode is A/B or left out, got {mode!r}")
        command = "ab"
    return [command, *rest]


if __name__ == "__main__":
    sys.argv[1:] = arguments_for_torchmark(sys.argv[1:])
    main()
