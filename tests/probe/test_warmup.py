"""The rehearsal leaves nothing behind that a fork would miss."""

from __future__ import annotations

import os
import threading

import pytest

from torchmark_probe.zygote.warmup import _leaves_threads

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def start_a_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def start_a_thread_that_ends() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    # The kernel's thread goes a moment after Python's.
    while threads() > 1:
        os.sched_yield()


def fail() -> None:
    raise RuntimeError("no such thing in this torch")


def test_a_thread_that_stays_is_noticed() -> None:
    assert _leaves_threads(start_a_thread)


def test_what_starts_no_thread_or_ends_it_may_be_rehearsed() -> None:
    assert not _leaves_threads(lambda: None)
    assert not _leaves_threads(start_a_thread_that_ends)


def test_what_fails_is_not_rehearsed() -> None:
    assert _leaves_threads(fail)


def test_it_is_found_out_without_doing_it_here() -> None:
    done: list[bool] = []

    def act() -> None:
        start_a_thread()
        done.append(True)

    here = threads()
    assert _leaves_threads(act)
    assert threads() == here
    assert not done
