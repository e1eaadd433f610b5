"""Work that goes on beside what is being measured, and never holds up the end of the program."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


def begin(work: Callable[[], _Result], name: str) -> Future[_Result]:
    """What the work will give; the future raises what it raises.

    Not in a pool of concurrent.futures: those are joined when the interpreter ends.
    """
    future: Future[_Result] = Future()

    def do() -> None:
        try:
            result = work()
        except BaseException as error:  # it is the future that raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=do, name=f"torchmark {name}", daemon=True).start()
    return future
