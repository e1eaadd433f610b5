"""Recorded calls made again and run in children, many in each: which do not give what they gave."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.engine.zygote.zygote import Zygote

SETUP = """
import json, warnings
from torchmark_probe.replay import calls
warnings.simplefilter("ignore")
calls.settle()

def sentence(text, seed):
    try:
        operator, args, kwargs = calls.rebuild(text, seed)
        found = calls.mismatches(text, args, kwargs, operator(*args, **kwargs))
        return "; ".join(found)
    except Exception as error:
        return type(error).__name__ + ": " + str(error).partition("\\n")[0]

def check_all():
    with open(folder + "/calls") as file:
        texts = json.load(file)
    with open(folder + "/sentences", "w", buffering=1) as file:
        for text in texts:
            print(json.dumps(sentence(text, seed)), file=file)
"""


def move_to_meta(text: str) -> str:
    """The call with all its tensors on meta: sizes of any kind, and no memory."""

    def moved(value: dict[str, Any]) -> dict[str, Any]:
        has_device = "device" in value or {"shape", "dtype"} <= value.keys()
        return {**value, "device": "meta"} if has_device else value

    return json.dumps(json.loads(text, object_hook=moved))


def failures(zygote: Zygote, texts: Sequence[str], seed: int = 0) -> dict[int, str]:
    """By the number of the call: what it raised, or how its outputs differ from the record."""
    found: dict[int, str] = {}
    start = 0
    while start < len(texts):
        sentences, crash = _in_one_child(zygote, texts[start:], seed)
        found.update({start + at: said for at, said in enumerate(sentences) if said})
        start += len(sentences)
        if crash is not None:
            found[start] = crash
            start += 1
    return found


def _in_one_child(zygote: Zygote, texts: Sequence[str], seed: int) -> tuple[list[str], str | None]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "calls").write_text(json.dumps(list(texts)))
        values = {"folder": folder, "seed": seed}
        case = PythonCase(
            stmt="check_all()",
            global_setup=SETUP,
            globals={name: {"kind": "json", "value": value} for name, value in values.items()},
        )
        crash = None
        try:
            zygote.run(case)
        except CaseFailedError as error:
            crash = str(error).partition("\n")[0]
        written = Path(folder) / "sentences"
        lines = written.read_text().splitlines() if written.exists() else []
    return [json.loads(line) for line in lines], crash
