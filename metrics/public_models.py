"""Thirteen models of public libraries: captured without a change, at what cost, and replayed whole.

    python3.11 -m venv models-venv
    models-venv/bin/pip install -e . -c constraints.txt -r metrics/public_models.txt
    models-venv/bin/python metrics/public_models.py [--rounds N] [--only NAME] [--no-replay]

The models come from their configurations, small and with random weights: nothing is downloaded.
torchvision must be a build for the same torch (`torchvision==0.28.0+cpu` next to `torch==2.13.0+cpu`).

1. The losses of four steps with a fixed seed are bit-equal, plain and captured.
2. Plain and captured steps take turns in one process. A captured step takes at most 3 times as
   long as a plain one, and the first of a capture, which describes every distinct call, at most 5
   times. Ratios are of medians over rounds; a plain step is the median of those of its own round.
3. `torchmark replay` of the trace replays every call; what fails or is skipped is listed.

The exit code is 0 if all of this holds for every model.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torchmark
from torchmark.report.formats.markdown import pipe_table

LATER_LIMIT = 3.0
FIRST_LIMIT = 5.0
EQUAL_STEPS = 4
LATER_STEPS = range(3, 9)
"""Steps of a capture that count as later ones, from 0: in the first three functions are asked for."""

class Steps:
    """Seconds and losses of the steps of one training."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.losses: list[torch.Tensor] = []
        self._start = 0.0

    def begin(self) -> None:
        self._start = time.perf_counter()

    def end(self, loss: torch.Tensor) -> None:
        self.seconds.append(time.perf_counter() - self._start)
        self.losses.append(loss)


Train = Callable[[int, Steps], None]
"""Trains so many steps more, and tells of each."""


def training(model: nn.Module, loss_of: Callable[[], torch.Tensor]) -> Train:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(count: int, steps: Steps) -> None:
        for _ in range(count):
            steps.begin()
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            steps.end(loss.detach())

    return train


def words(batch: int = 8, length: int = 64) -> torch.Tensor:
    return torch.randint(0, 1000, (batch, length))


def hugging_face(kind: str, config: dict[str, Any], **inputs: torch.Tensor) -> Train:
    import transformers  # noqa: PLC0415 - only where it is measured

    made = getattr(transformers, kind).config_class(**config)
    model = getattr(transformers, kind)(made).train()
    return training(model, lambda: model(**inputs).loss)


def bert() -> Train:
    config = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4, "intermediate_size": 256}  # fmt: skip
    inputs = words()
    return hugging_face(
        "BertForMaskedLM", config, input_ids=inputs, labels=inputs.masked_fill(inputs % 7 > 0, -100)
    )


def gpt2() -> Train:
    config = {"vocab_size": 1000, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
    inputs = words()
    return hugging_face("GPT2LMHeadModel", config, input_ids=inputs, labels=inputs)


def t5() -> Train:
    config = {"vocab_size": 1000, "d_model": 64, "d_kv": 16, "d_ff": 256, "num_layers": 2,
              "num_heads": 4, "decoder_start_token_id": 0}  # fmt: skip
    return hugging_face(
        "T5ForConditionalGeneration", config, input_ids=words(), labels=words(length=32)
    )


def llama() -> Train:
    config = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 256,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
    inputs = words()
    return hugging_face("LlamaForCausalLM", config, input_ids=inputs, labels=inputs)


def mixtral() -> Train:
    config = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "num_local_experts": 4, "output_router_logits": True}  # fmt: skip
    inputs = words()
    return hugging_face("MixtralForCausalLM", config, input_ids=inputs, labels=inputs)


def wav2vec2() -> Train:
    config = {"vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4, "intermediate_size": 256, "conv_dim": (32, 32, 32),
              "conv_stride": (5, 4, 4), "conv_kernel": (10, 8, 4), "num_conv_pos_embeddings": 16,
              "num_conv_pos_embedding_groups": 4, "mask_time_length": 2}  # fmt: skip
    sound = torch.randn(4, 8000)
    labels = torch.randint(1, 32, (4, 12))
    return hugging_face("Wav2Vec2ForCTC", config, input_values=sound, labels=labels)


def segformer() -> Train:
    config = {"num_labels": 5, "depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 40, 64],
              "decoder_hidden_size": 64, "num_attention_heads": [1, 2, 4, 8]}  # fmt: skip
    labels = torch.randint(0, 5, (2, 64, 64))
    return hugging_face(
        "SegformerForSemanticSegmentation", config, pixel_values=torch.randn(2, 3, 64, 64),
        labels=labels.masked_fill(labels == 4, 255),
    )  # fmt: skip


def classifier(model: nn.Module, size: int, classes: int = 10) -> Train:
    images, labels = torch.randn(4, 3, size, size), torch.randint(0, classes, (4,))
    model.train()
    return training(model, lambda: nn.functional.cross_entropy(model(images), labels))


def timm_resnet() -> Train:
    import timm  # noqa: PLC0415 - only where it is measured

    return classifier(timm.create_model("resnet10t", num_classes=10), 64)


def timm_vit() -> Train:
    import timm  # noqa: PLC0415 - only where it is measured

    small = {"patch_size": 8, "img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, **small)
    return classifier(model, 64)


def torchvision_classifier() -> Train:
    import torchvision  # noqa: PLC0415 - only where it is measured

    return classifier(torchvision.models.mobilenet_v3_small(num_classes=10), 64)


def torchvision_detection() -> Train:
    """With `torchvision.nms` and `roi_align`, operators that torch does not have."""
    import torchvision  # noqa: PLC0415 - only where it is measured

    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=128
    ).train()
    images = [torch.rand(3, 96, 128) for _ in range(2)]
    boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [30.0, 20.0, 90.0, 80.0]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
    return training(model, lambda: sum(model(images, targets).values()))


def graph_network() -> Train:
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv  # noqa: PLC0415

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = GCNConv(16, 32)
            self.two = GATConv(32, 8, heads=4)
            self.three = SAGEConv(32, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.one(x, edges).relu()
            return self.three(self.two(x, edges).relu(), edges)  # type: ignore[no-any-return]

    model = Net()
    x, edges = torch.randn(500, 16), torch.randint(0, 500, (2, 4000))
    labels = torch.randint(0, 4, (500,))
    return training(model, lambda: nn.functional.cross_entropy(model(x, edges), labels))


def lightning_trainer() -> Train:
    import lightning  # noqa: PLC0415 - only where it is measured

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2),
                nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
            )  # fmt: skip

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            images, labels = batch
            return nn.functional.cross_entropy(self.net(images), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    class Told(lightning.Callback):
        def __init__(self, steps: Steps) -> None:
            self.steps = steps

        def on_train_batch_start(self, *_: Any) -> None:
            self.steps.begin()

        def on_train_batch_end(self, _: Any, __: Any, outputs: Any, *___: Any) -> None:
            self.steps.end(outputs["loss"].detach())

    module = Module()
    data = [(torch.randn(3, 32, 32), number % 10) for number in range(256)]

    def train(count: int, steps: Steps) -> None:
        trainer = lightning.Trainer(
            accelerator="cpu", max_steps=count, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[Told(steps)],
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=16))

    return train


MODELS: dict[str, Callable[[], Train]] = {
    "transformers BERT": bert,
    "transformers GPT-2": gpt2,
    "transformers T5": t5,
    "transformers Llama": llama,
    "transformers Mixtral": mixtral,
    "transformers Wav2Vec2": wav2vec2,
    "transformers SegFormer": segformer,
    "timm ResNet": timm_resnet,
    "timm ViT": timm_vit,
    "torchvision MobileNetV3": torchvision_classifier,
    "torchvision Faster R-CNN": torchvision_detection,
    "PyTorch Geometric": graph_network,
    "Lightning": lightning_trainer,
}
