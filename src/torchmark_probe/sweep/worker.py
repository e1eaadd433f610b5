"""Measures many cases of a sweep, one after another, in one process.

Each result is sent as soon as it exists, so a crash only loses the current case. The model is built
once for all points with the same initialisation; exports and compilations are shared among them.
"""

import gc
import os
import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from torchmark_probe.loops.clocks import clock_facts, wall_clock
from torchmark_probe.loops.sampling import Limits, ReferenceLoop, Sampling, sample
from torchmark_probe.loops.snippets import PythonLoop, call_of
from torchmark_probe.replay.backends import (
    Bound,
    FirstRun,
    OnnxModel,
    first_line,
    first_run,
    largest_difference,
)
from torchmark_probe.replay.tensors import tensors_of
from torchmark_probe.replay.work import (
    bytes_of,
    flops_of_run,
    kernels_of,
    onnx_kernels_of,
    run_watching_memory,
)
from torchmark_probe.sweep import models
from torchmark_probe.zygote import wire
from torchmark_probe.zygote.handlers import Surroundings, UnsupportedError, answers
from torchmark_probe.zygote.lacking import what_is_lacking
from torchmark_probe.zygote.messages import Done, FileRead, Kernel, Sweep, SweepCase, Swept

_PRECISION = 0.01
_LEAST_SECONDS = 0.03
"""Seconds of measured blocks for a steady case: about a hundred blocks."""

_MOST_SECONDS = 0.12
"""Maximum for a case that is not steady: a thousand such cases take three minutes in total."""

_LONG_RUNS = 20
"""Runs of a case that takes longer than a block, if they fit into the next constant."""

_LONGEST = 3.0
"""Maximum seconds of measured blocks, however long a run takes."""

TOLERANCES = {"fp64": 1e-9, "fp32": 1e-4, "fp16": 1e-2, "bf16": 8e-2, "int8": 1e-1}
"""How much a result may differ from eager's, as a share of the largest element: about ten roundings
of the dtype, because orders of summation differ. Larger differences are reported."""


@answers(Sweep)
def _sweep(work: Sweep, _around: Surroundings, talk: int) -> Done:
    """Run the user's file and its cases in a child of the zygote; send each result."""
    gc.enable()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = work.folder
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # others would disturb the measurement
    reference = ReferenceLoop()
    reference.quiet_pace = work.quiet_pace
    assert work.file is not None
    sweeper = Sweeper(models.model_in(work.file), work, reference)
    wire.send(talk, FileRead())
    torch.set_num_threads(work.threads)
    for case in work.cases:
        wire.send(talk, sweeper.measure(case))
    return Done()


class Point(NamedTuple):
    """A model at one point in one dtype, with its eager result."""

    function: Callable[..., Any]
    inputs: List[Any]
    expected: List[Any]
    """The tensors of eager's result."""


class Sweeper:
    """What the cases share: the user's model, and everything prepared from it."""

    def __init__(self, model: Any, wanted: Sweep, reference: ReferenceLoop) -> None:
        self._model = model
        self._wanted = wanted
        self._reference = reference
        self._clock = wall_clock(torch)
        self._clock_facts = clock_facts(self._clock)
        self._rng = random.Random(0)  # noqa: S311 - an order of blocks, not a secret
        self._built_for: Any = None
        self._prepared: Dict[Any, Any] = {}
        self._point: Tuple[Any, Any] = (None, None)

    def measure(self, case: SweepCase) -> Swept:
        """Return the samples and facts of a case, or why there are none."""
        try:
            with torch.set_grad_enabled(case.phase != models.FORWARD):
                return self._measure(case)
        except UnsupportedError as error:
            return Swept("skipped", str(error))
        except models.CaseError as error:
            return Swept("failed", str(error))
        except (Exception, SystemExit) as error:
            return Swept("failed", first_line(error))

    def _measure(self, case: SweepCase) -> Swept:
        _refuse_what_cannot_be(case)
        point = self._at(case)
        run = self._first_run(case, point)
        if not case.timed:
            return Swept("measured", kernels=self._kernels(case, point, run.call))
        is_int8, is_onnx = case.dtype == "int8", case.backend == "ort"
        results = run.call.outputs if is_onnx else _results(run.result)
        error = largest_difference(point.expected, results)
        tensors = [*point.inputs, *point.expected]
        return Swept(
            "measured",
            _warning(error, point.expected, case.dtype),
            sampling=self._sample(run.call),
            max_error=error,
            prepare_seconds=run.seconds if case.backend != "pt" else None,
            # FLOPs and bytes depend only on the model; memory is what torch allocates.
            flops=None if is_int8 else self._flops(case, point),
            bytes=None if is_int8 else bytes_of(point.function, tensors),
            peak_memory_bytes=None if is_onnx else run_watching_memory(run.call)[1],
            kernels=self._kernels(case, point, run.call) if self._wanted.kernels else None,
        )

    def _at(self, case: SweepCase) -> Point:
        """Return the point of a case; the last one is kept, because its configs follow directly."""
        key = (sorted(case.dims.items()), case.dtype, case.phase)
        if self._point[0] != key:
            self._point = (None, None)  # free its memory before making the next one
            self._point = (key, self._make_point(case))
        point: Point = self._point[1]
        return point

    def _make_point(self, case: SweepCase) -> Point:
        sizes, dtype = case.dims, case.dtype
        function = self._function(sizes, dtype)
        inputs = models.ready_for(case.phase, models.make_inputs(self._wanted.inputs, sizes, dtype))
        try:
            result = models.call_of_phase(case.phase, function, function, inputs)()
        except UnsupportedError:
            raise
        except Exception as error:
            lacking = what_is_lacking(error)
            if lacking:
                raise UnsupportedError(lacking) from error
            shapes = models.inputs_text(self._wanted.inputs, sizes)
            raise models.CaseError(
                f"eager {dtype} with inputs {shapes} raised {first_line(error)}"
            ) from error
        expected = _results(result)
        if not expected:
            raise models.CaseError(f"the result is {type(result).__name__!r} and has no tensor")
        return Point(function, inputs, expected)

    def _function(self, sizes: Dict[str, int], dtype: str) -> Callable[..., Any]:
        init = {name: sizes[name] for name in self._wanted.init}
        if self._built_for != init:
            self._prepared.clear()
            models.forget_compilations()
            self._built_for = None
            self._prepared["model"] = models.build_model(
                self._model, init, len(self._wanted.inputs)
            )
            self._built_for = init
        function: Callable[..., Any] = self._once(
            ("dtype", dtype), lambda: models.in_dtype(self._prepared["model"], dtype)
        )
        return function

    def _first_run(self, case: SweepCase, point: Point) -> FirstRun:
        """Return the run that is timed; for ONNX Runtime it is a `Bound`."""
        phase, dtype, function = case.phase, case.dtype, point.function
        if case.backend == "ort":
            model = self._once(("ort", dtype), lambda: OnnxModel(function, self._wanted.threads))
            return first_run(
                lambda: model.bind(point.inputs, self._axes(), point.expected), "ONNX Runtime"
            )
        is_compiled = case.backend in ("compile", "compile-static")
        if is_compiled:
            key = (case.backend, dtype, phase != models.FORWARD)
            dynamic = case.backend == "compile"
            function = self._once(
                key, lambda: models.compile_model(point.function, dynamic=dynamic)
            )
        return first_run(
            lambda: models.call_of_phase(phase, function, point.function, point.inputs),
            "torch.compile" if is_compiled else "eager",
        )

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._prepared:
            self._prepared[key] = make()
        return self._prepared[key]

    def _axes(self) -> List[Dict[int, str]]:
        """Return the axes of each input that no parameter of the model fixes."""
        fixed = self._wanted.init
        return [
            {axis: dim for axis, dim in enumerate(each.dims)
             if isinstance(dim, str) and dim not in fixed}
            for each in self._wanted.inputs
        ]  # fmt: skip

    def _sample(self, call: Any) -> Sampling:
        if isinstance(call, Bound):  # timed without a wrapper
            call = models.Call(call.run, (call.binding,), {})
        setup, statement, names = call_of(call.function, call.arguments, call.keywords)
        blocks = PythonLoop(statement, setup, timer=self._clock, globals=names).blocks()
        try:
            seconds = blocks.run(1).wall
            most = min(max(_MOST_SECONDS, _LONG_RUNS * seconds), _LONGEST)
            limits = Limits(_PRECISION, _LEAST_SECONDS, most)
            return sample([blocks], limits, self._rng, self._clock_facts, self._reference)[0]
        finally:
            blocks.close()

    def _flops(self, case: SweepCase, point: Point) -> Optional[int]:
        is_both = case.phase == models.FORWARD_BACKWARD
        # Separately, because torch's counter cannot measure both passes at once.
        phases = [models.FORWARD, models.BACKWARD] if is_both else [case.phase]

        def flops() -> Optional[int]:
            function, inputs = point.function, point.inputs
            parts = [models.call_of_phase(phase, function, function, inputs) for phase in phases]
            counts = [flops_of_run(part.__call__) for part in parts]
            return None if None in counts else sum(filter(None, counts))

        key = ("flops", str(sorted(case.dims.items())), case.phase)
        found: Optional[int] = self._once(key, flops)
        return found

    def _kernels(self, case: SweepCase, point: Point, call: Any) -> List[Kernel]:
        if case.backend != "ort":
            return kernels_of(call)
        prefix = os.path.join(self._wanted.folder, "onnxruntime")
        session = self._prepared["ort", case.dtype].start_profiled_session(prefix)
        return onnx_kernels_of(session, point.inputs, point.expected)


def _refuse_what_cannot_be(case: SweepCase) -> None:
    """Skip what no model supports, before anything is built."""
    backend, dtype, phase = case.backend, case.dtype, case.phase
    if dtype == "int8" and phase != models.FORWARD:
        raise UnsupportedError("a model quantised to int8 has no gradients")
    if backend == "ort" and phase != models.FORWARD:
        raise UnsupportedError("ONNX Runtime runs only the forward pass")
    if backend == "ort" and dtype == "int8":
        raise UnsupportedError("torch's dynamic quantisation cannot be exported to ONNX")


def _results(value: Any) -> List[Any]:
    """Return the tensors of a result that can be compared."""
    return [tensor.detach() for tensor in tensors_of(value)]


def _warning(error: float, expected: Sequence[Any], dtype: str) -> str:
    elements = [float(t.abs().double().nan_to_num().max()) for t in expected if t.numel()]
    allowed = TOLERANCES[dtype] * max([*elements, 1.0])
    if error <= allowed:
        return ""
    return f"the result differs from eager's by {error:.3g}, more than the tolerance {allowed:.3g}"
