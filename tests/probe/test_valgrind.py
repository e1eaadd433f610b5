from __future__ import annotations

import ctypes
import platform
from types import BuiltinFunctionType
from typing import Any

import pytest

from torchmark_probe.zygote import valgrind


def test_without_valgrind_every_request_is_answered_with_nothing() -> None:
    requests = valgrind.requests()
    assert requests.running_on_valgrind() == 0
    assert requests.toggle_collect() == 0
    assert requests.zero_stats() == 0
    assert requests.start_instrumentation() == 0
    assert requests.stop_instrumentation() == 0
    assert requests.dump_stats_at(b"a remark") == 0


def test_the_toggle_is_a_c_function_without_arguments() -> None:
    requests = valgrind.requests()
    toggle: Any = requests.toggle_collect
    address = ctypes.cast(toggle, ctypes.c_void_p).value
    assert address
    ctypes.CFUNCTYPE(None)(address)()


def test_the_toggle_for_python_is_a_built_in_function() -> None:
    toggle = valgrind.requests().toggle_from_python
    assert isinstance(toggle, BuiltinFunctionType)
    for _ in range(1000):
        assert toggle() == 0


def test_another_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(valgrind.UnsupportedMachineError, match="riscv64"):
        valgrind.requests()
