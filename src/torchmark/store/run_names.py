"""How runs are called: the id that each gets, and what a person may type for it."""

from __future__ import annotations

import datetime
import secrets
from typing import TYPE_CHECKING

from torchmark.errors import AmbiguousRunError, InvalidArgumentError, UnknownRunError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LATEST = "latest"
"""What stands for the run that began last."""

_LISTED = 8
"""Candidates that an error names; more are counted."""


def new_run_id(now: datetime.datetime | None = None, token: str | None = None) -> str:
    """An id that sorts by time; six random digits keep runs of one second apart.

    >>> new_run_id(datetime.datetime(2026, 11, 15, 22, 15, 30), "a1b2c3")
    '20261115-221530-a1b2c3'
    """
    now = now if now is not None else datetime.datetime.now(datetime.timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{token if token is not None else secrets.token_hex(3)}"


def resolve_name(text: str, tags_of: Mapping[str, Sequence[str]], where: str) -> str:
    """The id that `text` means among the runs, given by id with their tags, oldest first.

    An id comes before a tag, and a tag before the beginning of an id.
    """
    if text in tags_of:
        return text
    if text == LATEST and tags_of:
        return list(tags_of)[-1]
    tagged = [run_id for run_id, tags in tags_of.items() if text in tags]
    found = tagged or [run_id for run_id in tags_of if text and run_id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        how = "are tagged" if tagged else "begin with"
        raise AmbiguousRunError(
            f"{len(found)} runs in {where} {how} {text!r}: {_list_some(found)}; name one of them"
        )
    raise UnknownRunError(_unknown(text, list(tags_of), where))


def check_tag(tag: str) -> None:
    """An InvalidArgumentError unless it can be told from ids and be typed in a shell."""
    if not tag or tag == LATEST or tag.startswith("-") or not tag.isprintable() or " " in tag:
        raise InvalidArgumentError(
            f"{tag!r} cannot be a tag: it must not be empty, {LATEST!r}, begin with '-' "
            "or have blanks in it"
        )


def _unknown(text: str, known: list[str], where: str) -> str:
    if not known:
        return f"there is no run {text!r}: {where} has none yet; `torchmark run` makes one"
    return (
        f"there is no run {text!r} in {where}; give an id, the beginning of one, a tag or "
        f"{LATEST!r}. The newest are {_list_some(known[::-1])}"
    )


def _list_some(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
