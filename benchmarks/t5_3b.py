"""One LoRA step of the T5-3B architecture in bfloat16 with random weights: a manual benchmark.

    python benchmarks/t5_3b.py                    the whole architecture; needs about 9 GiB free
    python benchmarks/t5_3b.py --layers 1         a shrunken one, in seconds
    python benchmarks/t5_3b.py --plan             only what it would take

What it shows: that a client can take a step of a model of 2.85 billion frozen parameters on an
ordinary machine, and what the step costs. Frozen weights are held once, in bfloat16, created in
that precision (never in float32 beside it); only the adapter has gradients and optimizer state,
and only the adapter is in the vector that travels. Activations are recomputed layer by layer
(gradient checkpointing), so that their memory does not grow with the number of layers.

Weights are random: no checkpoint is downloaded, and the loss means nothing. For real training give
model.kind = 'hub' and model.checkpoint = 'google-t5/t5-3b' in a federation file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regionfed.data.types import Row
from regionfed.models.build import build_model
from regionfed.models.config import LoraConfig, ModelConfig
from regionfed.models.flat import FlatModel
from regionfed.tasks.registry import intent_task
from regionfed.training.config import TrainingConfig
from regionfed.training.local import local_train

WORDS = 32_000
"""Size of the real T5 vocabulary, whose embedding belongs to the memory."""

LAYERS = 24
BYTES = 2


def configuration(layers: int, rank: int) -> ModelConfig:
    """The architecture of T5-3B with so many layers per stack."""
    return ModelConfig(
        kind="t5",
        preset="t5-3b",
        layers=layers,
        vocabulary_size=WORDS,
        max_input_length=32,
        max_target_length=8,
        frozen_precision="bf16",
        lora=LoraConfig(rank=rank),
    )


def frozen_parameters(layers: int) -> int:
    """Parameters of the base model, from its sizes."""
    width, inner, hidden = 1024, 32 * 128, 16384
    attention = 4 * width * inner
    encoder = attention + 2 * width * hidden
    decoder = 2 * attention + 2 * width * hidden
    return WORDS * width + layers * (encoder + decoder)


def available_gib() -> float:
    """Memory that the system can still give, GiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    raise SystemExit("no MemAvailable in /proc/meminfo; run this benchmark on Linux")


def peak_gib() -> float:
    """Largest resident size of this process so far, GiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**20
    raise SystemExit("no VmHWM in /proc/self/status; run this benchmark on Linux")


def one_step(layers: int, *, rank: int, rows: int) -> dict[str, Any]:
    """Build the model, take one step, and say what it took."""
    started = time.perf_counter()
    model = build_model(
        configuration(layers, rank),
        tasks=(intent_task(),),
        vocabulary=lambda: (f"word{place}" for place in range(WORDS)),
        seed=1,
    )
    module: Any = model.module
    # The method's name since transformers 5.
    enable = getattr(module, "activation_checkpointing_enable", None)
    (enable or module.gradient_checkpointing_enable)()
    flat = FlatModel(model.module)
    built = time.perf_counter() - started
    data = model.encode(
        [
            Row("intent", f"word{place} word{place + 1} word{place + 2}", "buy")
            for place in range(rows)
        ]
    )
    training = TrainingConfig(
        optimizer="adam",
        learning_rate=1e-3,
        steps=1,
        batch_size=rows,
        precision="bf16",
        threads=torch.get_num_threads(),
    )
    started = time.perf_counter()
    result = local_train(model, flat, data, training, seed=1)
    step = time.perf_counter() - started
    # In a first step the gradient reaches every lora_B (the lora_A follow, once B is not 0).
    layout = flat.layout
    still = [
        name
        for name, begin, end in zip(layout.names, layout.offsets, layout.offsets[1:], strict=False)
        if "lora_B" in name and not np.any(result.update[begin:end])
    ]
    if still or not np.isfinite(result.loss):
        raise SystemExit(f"loss {result.loss}; adapters that the step did not reach: {still}")
    frozen = sum(p.numel() for p in model.module.parameters() if not p.requires_grad)
    return {
        "layers_per_stack": layers,
        "frozen_parameters": frozen,
        "frozen_gib": frozen * BYTES / 2**30,
        "adapter_parameters": flat.layout.size,
        "bytes_per_client_round": 2 * 4 * flat.layout.size,
        "seconds_to_build": built,
        "seconds_of_the_step": step,
        "loss": result.loss,
        "peak_gib": peak_gib(),
    }


def main() -> None:
    """Say what it takes, check that it is there, and do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=LAYERS, help="layers per stack (24: T5-3B)")
    parser.add_argument("--rank", type=int, default=8, help="rank of the adapters")
    parser.add_argument("--rows", type=int, default=4, help="rows of the step")
    parser.add_argument("--plan", action="store_true", help="only say what it would take")
    arguments = parser.parse_args()
    frozen = frozen_parameters(arguments.layers)
    # Recomputed activations, the adapter's state and the libraries themselves, measured generously.
    needed = frozen * BYTES / 2**30 * 1.25 + 2.0
    free = available_gib()
    print(
        f"{frozen:,} frozen parameters, {frozen * BYTES / 2**30:.1f} GiB in bfloat16; about "
        f"{needed:.1f} GiB needed, {free:.1f} GiB available"
    )
    if arguments.plan:
        return
    if needed > free:
        raise SystemExit(
            f"not enough memory: free {needed - free:.1f} GiB more, or give a smaller --layers"
        )
    print(
        json.dumps(one_step(arguments.layers, rank=arguments.rank, rows=arguments.rows), indent=2)
    )


if __name__ == "__main__":
    main()
