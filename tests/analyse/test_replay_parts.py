"""Where the time goes in the model: equal layers are one row, others stay apart."""

from __future__ import annotations

from tests.replays import MadeCall, call, done, replay
from torchmark.analyse.replay import analyse_replay
from torchmark.analyse.replay_parts import split_by_module
from torchmark.model.run_settings import CallPlace


def places(*modules: str, phase: str = "forward") -> tuple[CallPlace, ...]:
    return tuple(CallPlace(phase=phase, module=module, count=1) for module in modules)


def made(number: int, *modules: str, op: str = "aten.mm.default", side: int = 4) -> MadeCall:
    return call(
        number, op, done(1e-6), count=len(modules), places=places(*modules), shape=(side, side)
    )


def rows_of(*calls: MadeCall) -> list[tuple[str, int, int, float]]:
    rows = split_by_module(analyse_replay(replay(*calls)))
    return [(row.label, row.depth, row.modules, round(row.share, 3)) for row in rows]


def test_equal_layers_are_one_row_with_their_number() -> None:
    layers = [f"encoder.layer.{number}" for number in range(12)]
    attention = made(0, *(f"{layer}.attention" for layer in layers))
    mlp = made(1, *(f"{layer}.mlp" for layer in layers), op="aten.relu.default")
    embeddings = made(2, "embeddings", op="aten.embedding.default")
    assert rows_of(attention, mlp, embeddings) == [
        ("", 0, 1, 1.0),
        ("encoder.layer.{0-11}", 1, 12, 0.96),
        ("attention", 2, 12, 0.48),
        ("mlp", 2, 12, 0.48),
        ("embeddings", 1, 1, 0.04),
    ]


def test_layers_with_other_shapes_operators_or_parts_stay_apart() -> None:
    assert [row[0] for row in rows_of(made(0, "0"), made(1, "1", side=8))] == ["", "0", "1"]
    relu = made(1, "1", op="aten.relu.default")
    assert [row[0] for row in rows_of(made(0, "0", "2"), relu)] == ["", "{0,2}", "1"]
    bias = made(1, "block.0.bias")
    rows = rows_of(made(0, *(f"block.{number}.linear" for number in range(4))), bias)
    assert [row[0] for row in rows] == ["", "block", "{1-3}.linear", "0", "linear", "bias"]


def test_what_a_layer_calls_in_the_backward_pass_does_not_set_it_apart() -> None:
    """The first layer of a model has no gradient of its input to compute."""
    backward = call(
        1, "aten.mm.default", done(1e-6), count=1, places=places("layer.1", phase="backward"),
        shape=(8, 8),
    )  # fmt: skip
    rows = rows_of(made(0, "layer.0", "layer.1"), backward)
    assert rows == [("", 0, 1, 1.0), ("layer.{0-1}", 1, 2, 1.0)]
