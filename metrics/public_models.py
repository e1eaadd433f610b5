"""Thirteen models of public libraries: captured without a change, at what cost, and replayed whole.

    python3.11 -m venv models-venv
    models-venv/bin/pip install -c constraints.txt -r metrics/public_models.txt -e '.[capture]'
    models-venv/bin/python metrics/public_models.py [--rounds N] [--only WORD] [--no-replay]

The models are made of their configurations, small and with random weights: nothing is downloaded.
torchvision must be a build for the same torch, as `torchvision==0.28.0+cpu` is for
`torch==2.13.0+cpu`; the one of PyPI needs CUDA's libraries.

1. The losses of four steps with a fixed seed are bit-equal, plain and captured.
2. A step under capture takes at most 3 times as long as a plain one, and the first one, in which
   each distinct call is described, at most 5 times. Plain steps and captures into a file take turns
   in one process and one thread; ratios are of CPU time, and medians over the rounds. Later steps
   are the fourth to the eighth: in those before them the functions are asked for.
3. `torchmark replay` runs every distinct call of the trace; what fails or is skipped is listed.

Exit status 0: all of it holds for every model, or none of the libraries is installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torchmark
from torchmark.capture.traces.loading import load_trace
from torchmark.model.result import Status
from torchmark.model.run_settings import settings_of
from torchmark.report.formats.markdown import pipe_table

LATER_LIMIT = 3.0
FIRST_LIMIT = 5.0
"""Most that a step under capture may take, over a plain one."""

EQUAL_STEPS = 4
STEPS = 8
"""Of each kind in a round."""

BUDGET = 0.002
"""Seconds that a call is measured for: here it matters that it runs, not how long it takes."""


class Steps:
    """Seconds and losses of the steps of one training."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.losses: list[torch.Tensor] = []
        self._start = 0.0

    def begin(self) -> None:
        self._start = time.process_time()

    def end(self, loss: torch.Tensor) -> None:
        self.seconds.append(time.process_time() - self._start)
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
            loss.backward()  # type: ignore[no-untyped-call]
            detached = loss.detach()
            optimizer.step()
            steps.end(detached)

    return train


def library(name: str) -> Any:
    """Not imported before it is measured."""
    return importlib.import_module(name)


def words(batch: int = 8, length: int = 64) -> torch.Tensor:
    return torch.randint(0, 1000, (batch, length))


def hugging_face(kind: str, config: dict[str, Any], **inputs: torch.Tensor) -> Train:
    chosen = getattr(library("transformers"), kind)
    model = chosen(chosen.config_class(**config)).train()
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
    config = {
        "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
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
    return classifier(library("timm").create_model("resnet10t", num_classes=10), 64)


def timm_vit() -> Train:
    small = {"patch_size": 8, "img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4}
    model = library("timm").create_model("vit_tiny_patch16_224", num_classes=10, **small)
    return classifier(model, 64)


def torchvision_classifier() -> Train:
    return classifier(library("torchvision").models.mobilenet_v3_small(num_classes=10), 64)


def torchvision_detection() -> Train:
    """With `torchvision.nms` and `roi_align`, operators that torch does not have."""
    model = (
        library("torchvision")
        .models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=128
        )
        .train()
    )
    images = [torch.rand(3, 96, 128) for _ in range(2)]
    boxes = torch.tensor([[10.0, 10.0, 60.0, 60.0], [30.0, 20.0, 90.0, 80.0]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
    return training(model, lambda: sum(model(images, targets).values()))


def graph_network() -> Train:
    layers = library("torch_geometric.nn")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = layers.GCNConv(16, 32)
            self.two = layers.GATConv(32, 8, heads=4)
            self.three = layers.SAGEConv(32, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.one(x, edges).relu()
            return self.three(self.two(x, edges).relu(), edges)  # type: ignore[no-any-return]

    model = Net()
    x, edges = torch.randn(500, 16), torch.randint(0, 500, (2, 4000))
    labels = torch.randint(0, 4, (500,))
    return training(model, lambda: nn.functional.cross_entropy(model(x, edges), labels))


def lightning_trainer() -> Train:
    lightning = library("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
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

    class Told(lightning.Callback):  # type: ignore[misc, name-defined]
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
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=16))  # type: ignore[arg-type]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a capture takes; ratios are over a plain step."""

    plain: float
    """Seconds."""

    first: float
    later: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found out about a model."""

    calls: int
    """Of a step."""

    distinct: int
    is_equal: bool
    cost: Cost
    replayed: int
    problems: tuple[str, ...]
    """Of those that were not replayed, and what the trace lacks."""

    def holds(self) -> bool:
        return (
            self.is_equal
            and self.cost.first <= FIRST_LIMIT
            and self.cost.later <= LATER_LIMIT
            and self.replayed == self.distinct
        )


def seeded(make: Callable[[], Train]) -> Train:
    torch.manual_seed(0)
    random.seed(0)
    library("numpy").random.seed(0)
    return make()


def losses_are_equal(make: Callable[[], Train], trace: Path) -> bool:
    plain, captured = Steps(), Steps()
    seeded(make)(EQUAL_STEPS, plain)
    train = seeded(make)
    with torchmark.Capture(trace):
        train(EQUAL_STEPS, captured)
    pairs = zip(plain.losses, captured.losses, strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def cost_of(make: Callable[[], Train], rounds: int, folder: Path) -> Cost:
    train = seeded(make)
    train(3, Steps())
    plains, firsts, laters = [], [], []
    for _ in range(rounds):
        plain, captured = Steps(), Steps()
        gc.collect()
        train(STEPS, plain)
        gc.collect()
        with torchmark.Capture(folder / "timed.jsonl.gz"):
            train(STEPS, captured)
        plains.append(statistics.median(plain.seconds))
        firsts.append(captured.seconds[0] / plains[-1])
        laters.append(statistics.median(captured.seconds[3:]) / plains[-1])
    return Cost(
        plain=statistics.median(plains),
        first=statistics.median(firsts),
        later=statistics.median(laters),
    )


def replay_problems(trace: Path, imports: list[str], folder: Path) -> tuple[int, list[str]]:
    """How many distinct calls were replayed, and why others were not."""
    run = torchmark.replay(
        trace, mode="hot", budget=BUDGET, imports=imports, store=folder / "store.db"
    )
    ops = {
        call.cases[backend]: call.op for call in settings_of(run).calls for backend in call.cases
    }
    done = [result for result in run.results if result.status is Status.DONE]
    problems = [
        f"{ops.get(result.case.id, '?')}: {result.reason.partition(chr(10))[0]}"
        for result in run.results
        if result.status is not Status.DONE
    ]
    return len(done), problems


def found_out(name: str, make: Callable[[], Train], rounds: int, *, replays: bool) -> Found:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        trace = folder / "trace.jsonl.gz"
        is_equal = losses_are_equal(make, trace)
        recorded = load_trace(trace)
        cost = cost_of(make, rounds, folder)
        replayed, problems = len(recorded.calls), list(recorded.unseen)
        if replays:
            imports = ["torchvision"] if name.startswith("torchvision") else []
            replayed, failed = replay_problems(trace, imports, folder)
            problems += failed
    return Found(
        # The first one also creates the optimizer's state, and the last may be what follows a step.
        calls=len(recorded.steps[1].calls),
        distinct=len(recorded.calls),
        is_equal=is_equal,
        cost=cost,
        replayed=replayed,
        problems=tuple(problems),
    )


def row(name: str, found: Found) -> list[str]:
    return [
        name,
        str(found.calls),
        str(found.distinct),
        "yes" if found.is_equal else "NO",
        f"{found.cost.plain * 1e3:.1f} ms",
        f"{found.cost.later:.2f}×",
        f"{found.cost.first:.1f}×",
        f"{found.replayed} of {found.distinct}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="plain steps and a capture each")
    parser.add_argument("--only", default="", help="models with this word in their name")
    parser.add_argument("--no-replay", action="store_true", help="leave the replays out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of the libraries
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    every: dict[str, Found] = {}
    missing = []
    for name, make in MODELS.items():
        if arguments.only.lower() in name.lower():
            try:
                seeded(make)
            except (ImportError, RuntimeError) as error:  # torchvision for another torch
                missing.append(f"{name}: {str(error).partition(chr(10))[0]}")
                continue
            every[name] = found_out(name, make, arguments.rounds, replays=not arguments.no_replay)
            print(name, *row(name, every[name])[1:], sep=" | ", file=sys.stderr, flush=True)
    for sentence in missing:
        print(f"not measured: {sentence}")
    if not every:
        return 0
    print(f"torch {torch.__version__}, Python {platform.python_version()}, one thread")
    head = ["model", "calls", "distinct", "loss bit-equal", "plain step", "later steps",
            "first step", "replayed"]  # fmt: skip
    print(pipe_table(head, [row(name, found) for name, found in every.items()]))
    for name, found in every.items():
        for problem in found.problems:
            print(f"{name}: {problem}")
    later = max(every, key=lambda name: every[name].cost.later)
    first = max(every, key=lambda name: every[name].cost.first)
    print(f"worst later step: {every[later].cost.later:.2f}× ({later}; limit {LATER_LIMIT}×)")
    print(f"worst first step: {every[first].cost.first:.1f}× ({first}; limit {FIRST_LIMIT}×)")
    return 0 if all(found.holds() for found in every.values()) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
