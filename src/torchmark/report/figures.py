"""Format figures and facts of a run as text, for all formats that people read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from torchmark.model.units import first_line, select_unit


def cut(text: str, width: int) -> str:
    """
    >>> cut("at::native::add", 8), cut("short", 8)
    ('at::nat…', 'short')
    """
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def cut_line(text: str, longest: int = 120) -> str:
    r"""The text in one line of at most `longest` characters.

    >>> cut_line("x + y\n  + z"), cut_line("a long name", 7)
    ('x + y + z', 'a long…')
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Bars from the least to the largest value; a bar may be the median of several values.

    >>> sparkline([1, 1, 2, 3, 3, 3], 6), sparkline([1, 1, 1, 9, 9, 9], 2), sparkline([5, 5], 8)
    ('▁▁▅███', '▁█', '▄▄')
    """
    count = min(width, len(values))
    edges = [round(at * len(values) / count) for at in range(count + 1)] if count else []
    shown = [median(values[low:high]) for low, high in itertools.pairwise(edges)]
    if not shown or not math.isfinite(sum(shown)):
        return ""
    least, span = min(shown), max(shown) - min(shown)
    if not span:
        return _BARS[3] * count
    return "".join(
        _BARS[min(int((each - least) / span * len(_BARS)), len(_BARS) - 1)] for each in shown
    )


def number_text(number: int, what: str) -> str:
    """
    >>> number_text(1, "call"), number_text(1234, "call")
    ('1 call', '1,234 calls')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def seconds_text(seconds: float, digits: int = 4) -> str:
    """
    >>> seconds_text(1.2e-6), seconds_text(0.9999999), seconds_text(0), seconds_text(-2e-9, 3)
    ('1.200 us', '1000 ms', '0 ns', '-2.00 ns')
    """
    unit, scale = select_unit(abs(seconds))
    return f"{f'{seconds / scale:#.{digits}g}'.rstrip('.') if seconds else '0'} {unit}"


def short_seconds_text(seconds: float) -> str:
    """A time with three digits, for tables with many times.

    >>> short_seconds_text(1.2345e-6), short_seconds_text(0.0123456), short_seconds_text(999.9e-9)
    ('1.23 us', '12.3 ms', '1.00 us')
    """
    return seconds_text(float(f"{seconds:.3g}"), 3)


def reach(value: float, interval: tuple[float, float] | None) -> str:
    """The longer side of an interval in per cent of the value; "?" without an interval.

    >>> reach(2.0, (1.9, 2.02)), reach(0.0, (0.0, 1.0)), reach(1.0, (0.0, 99.0)), reach(1.0, None)
    ('5.0 %', 'large', 'large', '?')
    """
    if interval is None:
        return "?"
    low, high = interval
    share = max(high - value, value - low) / abs(value) if value else math.inf
    return f"{share * 100:.1f} %" if share < 10 else "large"


def ratio_text(ratio: float) -> str:
    """
    >>> ratio_text(1.0119), ratio_text(12.3456), ratio_text(0.0001), ratio_text(12345.6)
    ('1.012', '12.35', '<0.001', '>9999')
    """
    if ratio < 0.001:
        return "<0.001"
    if ratio >= 9999.5:
        return ">9999"
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:#.4g}".rstrip(".")


def speedup_text(ratio: float) -> str:
    """
    >>> speedup_text(0.0123), speedup_text(1.237), speedup_text(45.67), speedup_text(1234.5)
    ('0.012×', '1.24×', '45.7×', '1234×')
    """
    decimals = 3 if ratio < 0.1 else 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{decimals}f}×"


def duration_text(seconds: float) -> str:
    """
    >>> duration_text(40), duration_text(400)
    ('40 s', '7 min')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def confidence_text(level: float) -> str:
    """
    >>> confidence_text(0.99), confidence_text(1 - 0.01 / 181)
    ('99 %', '99.994 %')
    """
    return f"{level * 100:.5g} %"


def share_text(share: float) -> str:
    """
    >>> share_text(0.1234), share_text(0.0001), share_text(12)
    ('12.3 %', '<0.1 %', 'large')
    """
    if share >= 10:
        return "large"
    return "<0.1 %" if 0 < share < 0.0005 else f"{share * 100:.1f} %"


def change_text(share: float) -> str:
    """
    >>> change_text(0.019), change_text(-0.5), change_text(0.0004)
    ('+1.9 %', '-50.0 %', '+0.04 %')
    """
    decimals = 2 if 0 < abs(share) < 0.001 else 1
    return f"{share * 100:+,.{decimals}f} %"


def amount_text(amount: float) -> str:
    """
    >>> amount_text(512), amount_text(1_500_000), amount_text(2.5e9), amount_text(999_999)
    ('512', '1.50 M', '2.50 G', '1.00 M')
    """
    prefixes, at = ("", " k", " M", " G", " T", " P"), 0
    while abs(amount) >= 999.5 and at < len(prefixes) - 1:
        amount, at = amount / 1000, at + 1
    return f"{amount:.4g}" if at == 0 else f"{amount:#.3g}".rstrip(".") + prefixes[at]


def instructions_text(count: float, sign: str = "") -> str:
    """
    >>> instructions_text(98331), instructions_text(1.5, "+"), instructions_text(1234.56)
    ('98,331', '+1.50', '1,234.6')
    """
    if count == int(count):
        return f"{int(count):{sign},}"
    return f"{float(count):{sign},.{1 if abs(count) >= 100 else 2}f}"


Phrases: TypeAlias = "Sequence[tuple[str, Sequence[str]]]"
"""Format strings for facts, each with the dotted names that the fact may have."""

_LINE: Phrases = (
    ("torch {}", ("torch.version",)),
    ("Python {}", ("python",)),
    ("{}", ("machine.cpu",)),
    ("{} cores", ("machine.usable_cores",)),
    ("load {}", ("machine.load",)),
    ("commit {:.10}", ("git.commit",)),
)


def environment_line(environment: Mapping[str, Any]) -> str:
    """The most important known facts, in one line."""
    facts = dict(environment_facts(environment))
    changes = ["with changes"] if facts.get("git.dirty") == "yes" else []
    return ", ".join([*describe_facts(facts, _LINE), *changes])


def describe_facts(facts: Mapping[str, str], phrases: Phrases) -> Iterator[str]:
    """The phrases for the facts that are known."""
    for phrase, names in phrases:
        value = next((facts[name] for name in names if facts.get(name)), "")
        if value:
            yield phrase.format(cut_line(first_line(value)))


def environment_facts(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All facts as pairs of dotted name and text.

    >>> list(environment_facts({"torch": {"version": "2.13.0"}, "cores": [0, 1], "cuda": False}))
    [('torch.version', '2.13.0'), ('cores', '0, 1'), ('cuda', 'no')]
    """
    for name, value in environment.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", text) for inner, text in environment_facts(value))
        elif value is not None:
            yield name, _fact_text(value)


def _fact_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact_text, value))
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
