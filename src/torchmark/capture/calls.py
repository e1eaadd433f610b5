"""Record every dispatcher call of a thread, by a TorchDispatchMode that compiled code does not see.

`CallMode.__torch_dispatch__` runs for each call of the captured program. It compares the call with
the one that came at this position in the step before, or looks it up by a key. Then it runs the
call and appends a number to a list. Only the first time, a call is described in full. Errors in
this module are noted in the record, and never reach the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from torchmark.capture.describing import CallDescription, SeenContents
from torchmark.capture.known import Key, KnownCall, KnownCalls, key_of, shapes_of, without_floats

if TYPE_CHECKING:
    from torchmark.capture.labels import Labels
    from torchmark.capture.record import Record

EVAL_FRAME: Any = torch._C._dynamo.eval_frame
set_eval_frame = EVAL_FRAME.set_eval_frame
"""torch's own function, even if it is replaced later."""

_OpOverload = torch._ops.OpOverload
_detach = torch.ops.aten.detach.default
_count_modes = torch._C._len_torch_dispatch_stack
_before_dispatch: Any = torch._ops.mode_stack_state_for_pre_dispatch
_count_modes_before_dispatch = _before_dispatch().count
_is_included = torch._C._dispatch_tls_is_dispatch_key_included
_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
_VIEWS = torch._C.DispatchKey.ADInplaceOrView

_NEAR = 16
"""An unexpected call is searched for among this many expected calls before and after."""

_LONGEST_STEP = 100_000
"""Calls of a step that the next step is compared with; without steps, nothing repeats."""


def never_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function, and all that it calls, out of compilation: it runs between two graphs."""
    skip_compilation(function, what_it_calls=EVAL_FRAME._FrameAction.SKIP)
    return function


def skip_compilation(function: Callable[..., Any], what_it_calls: Any) -> None:
    strategy = EVAL_FRAME._FrameExecStrategy(EVAL_FRAME._FrameAction.SKIP, what_it_calls)
    EVAL_FRAME.set_code_exec_strategy(function.__code__, strategy)


class CallMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds the calls of one thread to the record."""

    supports_higher_order_operators = True

    def __init__(self, record: Record, labels: Labels, *, exact: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_on = True
        self.labels = labels
        self._record = record
        self._exact = exact
        self._add = record.sequence.append
        self._expected: list[KnownCall] = []
        """The calls of the previous step."""
        self._position = 0
        """The index of the next call in `_expected`."""
        self._so_far: list[KnownCall] = []
        """The calls of this step."""
        self._looks = record.looks
        self._seen = SeenContents()
        self._new: set[KnownCall] = set()
        """The calls that are new in this step."""
        self._kinds: dict[Any, str] = {}
        """How each operator is treated: "usual", "mark" or "decided by content"."""
        self._learned: dict[tuple[int, bool], KnownCall] = {}
        """Calls that `fits` can compare with, from any place, by the number of the call and whether
        its floats may differ."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would wrap the hot path in one more call, and import its compiler for that.
        return False

    @never_compiled
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # An OpOverload is Python around this, and so is its hash.
        call = func._op if type(func) is _OpOverload else func
        if self.is_on and not (func is _detach and _is_no_dispatcher_call()):
            try:
                known = self.labels.known_calls()
                before, position = self._expected, self._position
                expected = before[position] if position < len(before) else None
                if (
                    expected is not None
                    and expected.call is call
                    and expected.known is known
                    and expected.fits(args, kwargs)
                ):
                    self._position = position + 1
                    self._so_far.append(expected)
                    pair: int | None = expected.pair
                else:
                    key = key_of(call, args, kwargs, self._looks)
                    pair = self._look_up(call, args, kwargs, key, known)
            except Exception as error:  # it must not reach the program
                self._record.note_trouble(func, error)
            else:
                if pair is None:
                    return self._unknown_call(func, args, kwargs or {}, key, known)
                result = call(*args, **kwargs) if kwargs else call(*args)
                self._add(pair)
                return result
        return call(*args, **kwargs) if kwargs else call(*args)

    def _look_up(
        self, call: Any, args: Any, kwargs: dict[str, Any] | None, key: Key, known: KnownCalls
    ) -> int | None:
        """The pair of an unexpected call; None if it is not known from this place."""
        found = self._expected_by_key(key, known) or known.get(key)
        is_folded = found is None and bool(known.folded)
        if is_folded:
            found = known.folded.get(without_floats(key))
        if found is None:
            return None
        # Numbers that an optimizer computes are repeated in this step, but in no other.
        if not found.is_learned and found not in self._new:
            same = self._record.pairs[found.pair][0], is_folded
            if (like := self._learned.get(same)) is not None:
                found.learn_from(like)
            else:
                found.learn(call, args, kwargs, folded=is_folded)
                self._learned[same] = found
        self._note(found)
        return found.pair

    def _expected_by_key(self, key: Key, known: KnownCalls) -> KnownCall | None:
        """The expected call, if it has this key. (Several lines of a module may make it.)"""
        if self._position < len(self._expected):
            expected = self._expected[self._position]
            if expected.known is known and expected.key == key:
                return expected
        return None

    def step_ended(self) -> None:
        """Expect the calls of the step that has ended in the next one."""
        self._expected, self._so_far, self._position = self._so_far, [], 0
        self._new.clear()
        self._seen.forget()

    def _note(self, call: KnownCall) -> None:
        """Add a call that was not the expected one, and find where the expected calls go on."""
        if len(self._so_far) >= _LONGEST_STEP:
            self.step_ended()
        self._so_far.append(call)
        position = self._position
        near = self._expected[max(0, position - _NEAR) : position + _NEAR]
        if call in near:
            position += near.index(call) - min(position, _NEAR)
        self._position = position + 1

    def _unknown_call(
        self, func: Any, args: Any, kwargs: dict[str, Any], key: Key, known: KnownCalls
    ) -> Any:
        """Run a call that is not known from this place; describe it if it is new in the record."""
        call = key[0]
        kind = self._kinds.get(call) or self._kind_of(call, func)
        if kind == "mark":
            return call(*args, **kwargs)
        if kind == "decided by content":
            return self._call_decided_by_content(func, args, kwargs, key, known)
        number = self._record.number_of(key)
        is_kept = number is None or self._record.is_kept(key)
        if number is not None:
            result = call(*args, **kwargs)
        else:
            description = None
            with _WithoutModes(self._record, func):
                description = self._describe(args, kwargs)
            result = call(*args, **kwargs)
            if description is not None:
                number = self._add_call(key, func, description, result)
        if number is not None:
            pair = self._record.pair_of(number, known.place)
            self._add(pair)
            calls: dict[Key, KnownCall] = known
            if not is_kept:
                calls, key = known.folded, without_floats(key)
            found = calls[key] = KnownCall(key, pair, known)
            self._new.add(found)
            self._note(found)
        return result

    def _describe(self, args: Any, kwargs: dict[str, Any]) -> CallDescription:
        return CallDescription(args, kwargs, exact=self._exact, looks=self._looks, seen=self._seen)

    def _add_call(
        self, key: Key, func: Any, description: CallDescription, result: Any
    ) -> int | None:
        """Add a call that has run to the record; None if that failed."""
        try:  # no operator runs when such a tensor is described without its contents
            if type(result) is torch.Tensor and result.layout is torch.strided:
                return self._record.add_call(key, func, description.finish(result))
        except Exception as error:
            self._record.note_trouble(func, error)
            return None
        with _WithoutModes(self._record, func):
            return self._record.add_call(key, func, description.finish(result))
        return None

    def _kind_of(self, call: Any, func: Any) -> str:
        kind = "usual"
        if getattr(func, "namespace", None) == "profiler":  # it computes nothing
            kind = "mark"
        elif torch.Tag.dynamic_output_shape in getattr(func, "tags", ()):
            kind = "decided by content"
        self._kinds[call] = kind
        return kind

    def _call_decided_by_content(
        self, func: Any, args: Any, kwargs: dict[str, Any], key: Key, known: KnownCalls
    ) -> Any:
        """Run a call whose output shapes depend on contents, and use these shapes in its key.

        The description comes after the call, since such operators do not change their inputs.
        """
        result = func(*args, **kwargs)
        key = (*key, shapes_of(result))
        if (found := known.get(key)) is not None:
            self._add(found.pair)
            return result
        number = self._record.number_of(key)
        if number is None:
            with _WithoutModes(self._record, func):
                description = self._describe(args, kwargs)
                number = self._record.add_call(key, func, description.finish(result))
        if number is not None:
            pair = self._record.pair_of(number, known.place)
            known[key] = KnownCall(key, pair, known)
            self._add(pair)
        return result


class _WithoutModes:
    """Turns modes, gradients and the compiler off while tensors are inspected; notes errors.

    It is a class, and removes modes only if there are some, because a chain of context managers
    took as long as the description of a call.
    """

    __slots__ = ("_frame", "_func", "_functions", "_gradient", "_modes", "_record")

    def __init__(self, record: Record, func: Any) -> None:
        self._record = record
        self._func = func

    def __enter__(self) -> None:
        self._frame = set_eval_frame(None)
        self._gradient = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()
        self._modes: Any = None
        if _count_modes() or _count_modes_before_dispatch():
            self._modes = _disable_current_modes()
            self._modes.__enter__()

    def __exit__(self, _: object, error: object, __: object) -> bool:
        if self._modes is not None:
            self._modes.__exit__(None, None, None)
        self._functions.__exit__(None, None, None)
        torch._C._set_grad_enabled(self._gradient)
        set_eval_frame(self._frame)
        if isinstance(error, Exception):
            self._record.note_trouble(self._func, error)
        return isinstance(error, Exception)


def mode_here() -> CallMode | None:
    """The mode of this thread. A thread of autograd has that of the thread that called backward."""
    modes = _get_current_dispatch_mode_stack()
    return next((mode for mode in modes if isinstance(mode, CallMode)), None)


@never_compiled
def _is_no_dispatcher_call() -> bool:
    """Whether this `detach` is not a dispatcher call, but torch asking the mode to copy a tensor.

    `x.data` and the tensors that autograd saves are such copies. Without a mode, C++ makes them
    without a dispatcher call. A real call has passed the dispatch key for views, which is then
    excluded.
    """
    return _is_included(_VIEWS) and not _is_excluded(_VIEWS)
