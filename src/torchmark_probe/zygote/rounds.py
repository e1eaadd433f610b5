"""Times several statements in one process, in rounds, and tells the control side which one runs.

The control side and this process share a folder. Before each block, the number of the statement and
the time are written to its file `turn`: if the process dies or hangs, that statement is the cause.
The output of each statement goes to its own two named pipes, `0.out` and `0.err`, which the control
side reads. All of this happens between blocks, in the same way for every statement.
"""

import os
import random
import struct
import time
from typing import Any, Dict, List, Optional

from torchmark_probe.loops import sampling
from torchmark_probe.loops.sampling import ReferenceLoop
from torchmark_probe.loops.snippets import Block
from torchmark_probe.zygote import messages
from torchmark_probe.zygote.cases import make_namespace, start_case
from torchmark_probe.zygote.handlers import Surroundings, answers
from torchmark_probe.zygote.serving import flush_everything

TURN_FILE = "turn"

TURN = struct.Struct("<id")
"""The statement's number and its start by `time.monotonic`, which all processes share."""

OUTPUTS = ("out", "err")
"""Extensions of the names of a statement's pipes: standard output and standard error."""


class Turns:
    """Records whose turn it is, and redirects output to that statement's pipes."""

    def __init__(self, folder: str, number: int) -> None:
        self._file = os.open(os.path.join(folder, TURN_FILE), os.O_WRONLY | os.O_CREAT, 0o600)
        self._outputs = [
            [os.open(os.path.join(folder, f"{each}.{end}"), os.O_WRONLY) for end in OUTPUTS]
            for each in range(number)
        ]
        self._last: Optional[int] = None

    def begin(self, number: int) -> None:
        """Begin the turn of this statement.

        An error here is caused by the previous statement, which has closed a file that it does not
        own: the file still names that statement.
        """
        if number != self._last:
            flush_everything()
            for descriptor, own in enumerate(self._outputs[number], start=1):
                os.dup2(own, descriptor)
            self._last = number
        os.pwrite(self._file, TURN.pack(number, time.monotonic()), 0)


class _Loop:
    """Blocks of one statement, each in its own turn."""

    def __init__(self, blocks: Any, turns: Turns, number: int) -> None:
        self._blocks, self._turns, self._number = blocks, turns, number

    def run(self, number: int) -> Block:
        self._turns.begin(self._number)
        block: Block = self._blocks.run(number)
        return block


@answers(messages.SampleTogether)
def _sample_together(
    work: messages.SampleTogether, around: Surroundings, _talk: int
) -> messages.SampledTogether:
    turns = Turns(work.folder, len(work.cases))
    namespace: Optional[Dict[str, Any]] = None
    loops: List[_Loop] = []
    for number, case in enumerate(work.cases):
        turns.begin(number)
        if namespace is None and isinstance(case, messages.PythonCase):
            namespace = make_namespace(case, around)
        started = start_case(case, around, dict(namespace or {}))
        loops.append(_Loop(started.blocks, turns, number))
    reference = ReferenceLoop()
    reference.quiet_pace = work.quiet_pace
    rng = random.Random(work.seed)  # noqa: S311 - an order of blocks, not a secret
    return messages.SampledTogether(
        sampling.sample(loops, work.limits, rng, started.clock, reference)
    )
