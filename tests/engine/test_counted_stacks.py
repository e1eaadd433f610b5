"""Stacks as callgrind counts them, in a real zygote under callgrind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.zygote_cases import c_library, case
from torchmark.engine.counting import counted_stacks
from torchmark.engine.zygote.cases import LOOP_FRAME, NativeCase
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.zygote import Zygote

ADD = case("torch.add(x, x)", "x = torch.ones(1)")


def test_every_instruction_of_a_run_is_in_a_stack(callgrind_zygote: Zygote) -> None:
    stacks, instructions = counted_stacks(callgrind_zygote, ADD)
    total = sum(stack.weight for stack in stacks)
    assert abs(total - instructions) <= 1
    assert any("at::_ops::add_Tensor" in frame for stack in stacks for frame in stack.frames)


def test_the_same_statement_gives_the_same_picture(callgrind_zygote: Zygote) -> None:
    assert counted_stacks(callgrind_zygote, ADD) == counted_stacks(callgrind_zygote, ADD)


def test_a_compiled_statement_is_counted_too(callgrind_zygote: Zygote, tmp_path: Path) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    stacks, instructions = counted_stacks(callgrind_zygote, native)
    assert 1 <= instructions <= 20
    assert [stack.frames for stack in stacks] == [(LOOP_FRAME,)]


def test_a_case_that_fails_is_an_error(callgrind_zygote: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="nowhere"):
        counted_stacks(callgrind_zygote, case("nowhere"))
