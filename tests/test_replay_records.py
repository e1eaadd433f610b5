"""Records of models and of operator samples run again, with outputs as recorded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import torchmark
from examples.models import MODELS
from tests.operator_samples import captured, operators
from tests.record_checks import failures
from torchmark.define.recorded import call_text

if TYPE_CHECKING:
    from torchmark.engine.zygote.zygote import Zygote


def test_all_records_of_ten_models_run_as_recorded(plain_zygote: Zygote) -> None:
    texts = []
    for make in MODELS.values():
        step = make(1)
        with torchmark.Capture() as capture:
            step()
            step()
        texts += [call_text(call) for call in capture.trace().calls]
    assert len(texts) > 1000
    assert {texts[number]: said for number, said in failures(plain_zygote, texts).items()} == {}


@pytest.mark.filterwarnings("ignore")  # of torch, about its own samples
def test_records_of_operator_samples_run_as_recorded(plain_zygote: Zygote) -> None:
    chosen = random.Random(7).sample(operators(), 60)
    texts = captured(chosen, most=3)
    assert len(texts) > 100
    for seed in range(2):
        found = failures(plain_zygote, texts, seed)
        assert len(found) <= len(texts) / 100, {texts[at]: said for at, said in found.items()}
