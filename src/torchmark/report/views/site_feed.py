"""The Atom feed of a site: the newest lasting changes."""

from __future__ import annotations

import datetime
import html
import urllib.parse
from collections.abc import Iterable

from torchmark.analyse.change_points import Fate
from torchmark.model.series import Quantity
from torchmark.printable import printable
from torchmark.report.figures import change_text
from torchmark.report.views.site import ListedChange, case_page, sort_changes

_MOST = 50
"""Entries, the newest."""

_BEGINNING = "1970-01-01T00:00:00+00:00"

_NOT_IN_XML = dict.fromkeys([0xFFFE, 0xFFFF])
"""Besides control characters."""


def atom_feed(title: str, site_url: str, changes: Iterable[ListedChange]) -> str:
    """The newest lasting changes as an Atom feed."""
    shown = [each for each in sort_changes(changes) if each.fate is not Fate.PASSED]
    shown = shown[:_MOST]
    base = site_url if site_url.endswith("/") or not site_url else f"{site_url}/"
    updated = max((each.when for each in shown), default=_BEGINNING)
    entries = [_entry(each, base) for each in shown]
    return printable(
        "\n".join(
            [
                '<?xml version="1.0" encoding="utf-8"?>',
                '<feed xmlns="http://www.w3.org/2005/Atom">',
                f"<title>{_xml(title)}</title>",
                f"<id>{_xml(base or 'urn:torchmark:site')}</id>",
                f'<link rel="alternate" href="{_xml(base)}index.html"/>',
                f'<link rel="self" href="{_xml(base)}feed.xml"/>',
                f"<updated>{_xml(_rfc3339(updated))}</updated>",
                "<author><name>torchmark</name></author>",
                *entries,
                "</feed>",
                "",
            ]
        )
    )


def _entry(each: ListedChange, base: str) -> str:
    direction = "slower" if each.quantity is Quantity.TIME else "more"
    if each.change <= 0:
        direction = "faster" if each.quantity is Quantity.TIME else "fewer"
    figure = f"{each.quantity.value} {change_text(each.change)} ({direction})"
    name = urllib.parse.quote(f"{each.case_id}:{each.quantity.value}:{each.run}:{each.machine}")
    return "\n".join(
        [
            "<entry>",
            f"<title>{_xml(f'{each.title}: {figure}')}</title>",
            f"<id>urn:torchmark:change:{_xml(name)}</id>",
            f'<link rel="alternate" href="{_xml(base + case_page(each.case_id))}"/>',
            f"<updated>{_xml(_rfc3339(each.when))}</updated>",
            f"<summary>{_xml(f'{each.between}; {each.machine}; {each.fate.value}')}</summary>",
            "</entry>",
        ]
    )


def _rfc3339(when: str) -> str:
    """The time as feeds write it; what is not one becomes the beginning of time.

    >>> _rfc3339("2026-11-15T22:15:30Z"), _rfc3339("2026-11-15T22:15:30-05:00")
    ('2026-11-15T22:15:30+00:00', '2026-11-15T22:15:30-05:00')
    """
    try:
        time = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
    except ValueError:
        return _BEGINNING
    return (time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)).isoformat()


def _xml(text: str) -> str:
    return html.escape(printable(text).replace("\n", " ").translate(_NOT_IN_XML))
