"""How many records of the sample traces can be read, and built on the meta device.

    python metrics/sample_traces.py [FILE…]

Without files: the four of tests/data/operator_traces, recorded on CUDA in 2022. At least 97 % of
their records are to be built; an operator that this torch does not have is a row that says so.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.record_checks import move_to_meta
from torchmark.capture.traces.loading import load_trace
from torchmark.define.recorded import call_text
from torchmark_probe.replay.calls import rebuild
from torchmark_probe.replay.records import CannotRebuildError

SAMPLES = Path(__file__).resolve().parent.parent / "tests" / "data" / "operator_traces"
WANTED = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """What came of one file."""

    name: str
    records: int
    """Lines of the file that are records."""

    parsed: int
    """Calls that the importer made of them."""

    built: int
    """Calls whose operator and arguments were made on the meta device."""

    ran: int
    """Calls that also run there: shapes and dtypes fit the operator."""

    reasons: Counter[str]
    """Why others were not built, or did not run."""


def result_of(file: Path) -> FileResult:
    trace = load_trace(file)
    built = ran = 0
    reasons: Counter[str] = Counter()
    for call in trace.calls:
        try:
            operator, args, kwargs = rebuild(move_to_meta(call_text(call)))
        except CannotRebuildError as error:
            reasons[f"{call.op}: {error}"] += 1
            continue
        built += 1
        try:
            with torch.no_grad():
                operator(*args, **kwargs)
        except Exception as error:
            reasons[f"{call.op} does not run on meta: {str(error).splitlines()[0]}"] += 1
        else:
            ran += 1
    records = sum(line.startswith("cnt:") for line in file.read_text().splitlines())
    return FileResult(
        name=file.name, records=records, parsed=len(trace.calls), built=built, ran=ran,
        reasons=reasons,
    )  # fmt: skip


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]] or sorted(SAMPLES.glob("*.txt"))
    results = [result_of(file) for file in files]
    print(f"torch {torch.__version__}")
    print(f"{'file':<50}{'records':>8}{'parsed':>8}{'built':>7}{'run':>6}")
    for result in results:
        print(
            f"{result.name:<50}{result.records:>8}{result.parsed:>8}{result.built:>7}"
            f"{result.ran:>6}"
        )
        for reason, count in result.reasons.items():
            print(f"    {count} × {reason}")
    records = sum(result.records for result in results)
    built = sum(result.built for result in results)
    print(f"{built} of {records} records are built: {built / records:.1%}, wanted {WANTED:.0%}")
    sys.exit(built < WANTED * records)


if __name__ == "__main__":
    main()
