from __future__ import annotations

import json

from hypothesis import given

from tests.flame.samples import stacks
from torchmark.flame.speedscope import speedscope
from torchmark.flame.stacks import Stack, merged


@given(stacks())
def test_speedscope_gets_the_stacks_as_samples(drawn: list[Stack]) -> None:
    document = json.loads(speedscope(drawn, name="torch.add", unit="samples"))
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(names) == len(set(names))
    read = {
        tuple(names[frame] for frame in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert read == dict(merged(drawn))
    assert profile["endValue"] - profile["startValue"] == sum(read.values())


def test_the_title_has_the_unit_and_the_rest_is_what_the_schema_asks_for() -> None:
    document = json.loads(speedscope([Stack(("f",), 3)], name="torch.add", unit="samples"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["name"] == "torch.add (samples)"
    assert document["shared"] == {"frames": [{"name": "f"}]}
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"]) == ("sampled", "none")
    assert (profile["samples"], profile["weights"]) == ([[0]], [3])
