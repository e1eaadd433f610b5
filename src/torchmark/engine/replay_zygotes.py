"""The zygotes of a replay: one for each backend, and one that counts, started when needed.

Each has imported what its backend needs, so that no child has to: torch.compile and the exporter
take seconds to import.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch
from torchmark.model.run_settings import Backend

if TYPE_CHECKING:
    from typing import Any, Self

    from torchmark.engine.zygote.zygote import Zygote

_PROBE = (
    "torch.utils.flop_counter",
    "torchmark_probe.replay.cases",
    "torchmark_probe.replay.work",
)
_MODULES = {
    Backend.EAGER: _PROBE,
    Backend.COMPILE: (*_PROBE, "torch._inductor.compile_fx", "torch._inductor.codegen.cpp"),
    Backend.ORT: (
        *_PROBE,
        "onnxruntime",
        "onnxscript",
        "torch.onnx._internal.exporter._core",
    ),
}


class ReplayZygotes:
    """Whatever the replay ends with, leaving the `with` block ends every process."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ZygotePool()
        self._kernels = make_private_directory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(discard, self._kernels)
            stack.callback(self._pool.close)

    def facts(self) -> dict[str, Any]:
        """What the environment says of itself; an error if torch cannot be used there."""
        return self.of(Backend.EAGER).start()

    def of(self, backend: Backend) -> Zygote:
        launch = Launch(
            threads=self._threads,
            modules=_MODULES[backend],
            environment=self._environment(backend),
        )
        return self._pool.zygote(launch)

    def counting(self) -> Zygote:
        return self._pool.zygote(
            Launch(threads=self._threads, under_callgrind=True, modules=_PROBE)
        )

    def _environment(self, backend: Backend) -> tuple[tuple[str, str], ...]:
        """Compiled kernels go with the replay; calls compile one after the other."""
        if backend is not Backend.COMPILE:
            return ()
        return (
            ("TORCHINDUCTOR_CACHE_DIR", str(self._kernels)),
            ("TORCHINDUCTOR_COMPILE_THREADS", "1"),
        )
