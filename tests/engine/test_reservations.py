"""A run that is being carried out is nobody else's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torchmark.engine.reservations import check_free, is_owned, own_run
from torchmark.errors import RunInUseError

_KILLED = """
import os, signal
from torchmark.engine.reservations import own_run
with own_run("a-run"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_is_owned_while_it_is_carried_out() -> None:
    assert not is_owned("a-run")
    with own_run("a-run"):
        assert is_owned("a-run")
        with pytest.raises(RunInUseError, match="a-run is being measured"):
            check_free("a-run")
        check_free("another")
    check_free("a-run")


def test_a_process_that_is_killed_owns_nothing() -> None:
    subprocess.run([sys.executable, "-c", _KILLED], check=False)
    assert not is_owned("a-run")
    with own_run("a-run"):
        assert is_owned("a-run")
