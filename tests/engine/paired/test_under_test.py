"""Environments under test, real ones: what is known of them, and of the two together."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from tests import light_torch
from tests.engine.paired.sides import open_one
from torchmark.engine.environments import activate_environment
from torchmark.engine.under_test import WORKS, UnderTest, open_environments, remarks_on
from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import MissingTorchError, ZygoteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def here() -> Iterator[UnderTest]:
    under_test = open_one("A", "export TORCHMARK_TEST_FLAG=on")
    yield under_test
    under_test.close()


def test_an_environment_describes_itself(here: UnderTest) -> None:
    described = here.describe()
    assert (described.name, described.command) == ("A", "export TORCHMARK_TEST_FLAG=on")
    facts = described.facts
    assert facts["executable"] == sys.executable
    assert facts["python"] == platform.python_version()
    assert facts["torch"]["version"] == str(torch.__version__)
    assert facts["torch"]["git"] == torch.version.git_version
    assert facts["torch"]["config"] == torch.__config__.show()
    assert facts["torch_file"] == torch.__file__
    assert facts["threads"] == 1
    assert facts["fixed_addresses"], "this machine lets us choose"
    assert facts["directory"] == os.getcwd()
    assert facts["variables"].get("TORCHMARK_TEST_FLAG") == "on"
    assert facts["counting"] == facts["cpp"] == WORKS
    assert facts["compiler"]


def test_code_is_copied_where_two_builds_of_torch_are_compared(tmp_path: Path) -> None:
    one, other = (light_torch.put_into(tmp_path / name) for name in ("one", "other"))
    for commands, copies in (
        ({"A": one, "B": other}, True),
        ({"A": one, "B": f"{one} FLAG=on"}, False),  # they share the files as the kernel read them
    ):
        for side in open_environments(commands):
            times, counts = (
                side.workers.launch(1, under_callgrind=is_count) for is_count in (False, True)
            )
            assert times.copies_code == copies
            assert not counts.copies_code


def test_an_environment_is_asked_once(here: UnderTest) -> None:
    assert here.describe() is here.describe()
    assert here.facts()["pid"] == here.facts()["pid"]


def test_its_zygotes_have_its_variables_and_the_given_path_and_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "own_module.py").write_text("value = 42")
    side = open_one(
        "B", f"{light_torch.put_into(tmp_path / 'env')} FLAG=on", [str(tmp_path / "beside")]
    )
    assert side.facts()["torch"] == light_torch.VERSION
    zygote = side.workers.start(1, under_callgrind=False)
    said = zygote.run(
        PythonCase(
            stmt="print(os.environ['FLAG'], own_module.value)", setup="import os, own_module"
        )
    )
    assert said.stdout == "on 42\n"
    side.close()
    assert not zygote.is_alive


def test_its_zygotes_have_the_modules_asked_for_and_do_without_those_that_it_has_not(
    tmp_path: Path,
) -> None:
    light = light_torch.put_into(tmp_path)
    looked_for = PythonCase(stmt="print('wave' in sys.modules)", global_setup="import sys")
    for modules, is_there in ((["no_such_module", "wave"], "True"), ([], "False")):
        with closing(open_one("B", light, modules=modules)) as side:
            zygote = side.workers.start(1, under_callgrind=False)
            assert zygote.run(looked_for).stdout.strip() == is_there


def test_without_valgrind_it_says_why_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = open_one("B", light_torch.put_into(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    facts = side.describe().facts
    side.close()
    assert "install the package 'valgrind'" in facts["counting"]
    assert facts["cpp"] != WORKS
    assert "compiler" not in facts


def test_on_an_unknown_machine_it_says_why_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = open_one("B", light_torch.put_into(tmp_path))
    monkeypatch.setattr("torchmark.engine.under_test.platform.machine", lambda: "abacus")
    facts = side.describe().facts
    side.close()
    assert "can be counted only on" in facts["counting"]


def test_the_same_installation_is_said_to_be_the_same() -> None:
    one, other = open_one("A", ""), open_one("new", "")
    (remark,) = remarks_without_facts(one, other)
    assert remark == (
        "A and new are the same installation of torch, started the same way: no difference is "
        "expected"
    )


def test_two_statements_in_one_environment_may_well_differ() -> None:
    one, other = open_one("A", ""), open_one("B", "")
    assert remarks_without_facts(one, other, statements_differ=True) == []
    other = open_one("B", "export TWO=2")
    (remark,) = remarks_without_facts(one, other, statements_differ=True)
    assert "with other variables (TWO)" in remark


def test_other_variables_of_the_same_installation_are_named() -> None:
    one, other = (
        open_one("A", "export ONE=1 BOTH=0"),
        open_one("B", "export TWO=2 BOTH=9"),
    )
    (remark,) = remarks_without_facts(one, other)
    assert remark == (
        "A and B are the same installation of torch, with other variables (BOTH, ONE, TWO)"
    )


def test_another_interpreter_with_the_same_torch_is_said_to_share_it() -> None:
    one = open_one("A", "")
    environment = activate_environment("B", "")
    other = replace(
        environment, interpreter=replace(environment.interpreter, executable="/other/python")
    )
    (remark,) = remarks_without_facts(one, UnderTest(other))
    assert remark == "A and B are the same installation of torch"


def test_another_torch_needs_no_remark(tmp_path: Path) -> None:
    other = open_one("B", light_torch.put_into(tmp_path))
    assert remarks_without_facts(open_one("A", ""), other) == []


@pytest.mark.parametrize("fixed", [(True, False), (False, True), (False, False)])
def test_addresses_that_cannot_be_chosen_are_a_doubt(
    tmp_path: Path, fixed: tuple[bool, bool]
) -> None:
    other = open_one("B", light_torch.put_into(tmp_path))
    (remark,) = remarks_without_facts(open_one("A", ""), other, fixed)
    assert "does not let torchmark choose addresses" in remark


def remarks_without_facts(
    a: UnderTest,
    b: UnderTest,
    fixed: tuple[bool, bool] = (True, True),
    *,
    statements_differ: bool = False,
) -> list[str]:
    """What is remarked where the environments say so of their addresses; nothing is started."""
    for side, is_fixed in zip((a, b), fixed, strict=True):
        side.facts = {"fixed_addresses": is_fixed}.copy  # type: ignore[method-assign]
    return remarks_on(a, b, statements_differ=statements_differ)


def test_a_torch_that_cannot_be_imported_ends_with_its_own_words(tmp_path: Path) -> None:
    command = light_torch.put_into(tmp_path, "raise OSError('libfoo.so.3: cannot open')")
    side = open_one("B", command)
    with pytest.raises(ZygoteError, match=r"OSError: libfoo\.so\.3: cannot open"):
        side.describe()
    side.close()


def test_an_environment_without_torch_ends_with_what_python_says(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(MissingTorchError, match="No module named 'torch'") as caught:
        open_one("B", f"export PATH={tmp_path}:$PATH")
    assert "activation command of B" in str(caught.value)
