"""Facts that a case reports of itself: they come back with its answer, beside what it printed."""

from typing import Any, Dict

_facts: Dict[str, Any] = {}


def report(**facts: Any) -> None:
    """Tell the control side something of this case, as plain JSON. The last value of a name counts.

    >>> report(flops=2)
    >>> collect()
    {'flops': 2}
    """
    _facts.update(facts)


def collect() -> Dict[str, Any]:
    """All that was reported in this process, which is then forgotten."""
    facts = dict(_facts)
    _facts.clear()
    return facts
