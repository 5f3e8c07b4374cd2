"""Where and how tensors are computed: device, threads, precision, determinism."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from regionfed.errors import ConfigError
from regionfed.training.config import TrainingConfig

logger = logging.getLogger(__name__)


def resolve_device(config: TrainingConfig) -> torch.device:
    """The device that `training.device` stands for on this machine.

    Falls back to the CPU, with a warning in the log, where no GPU can be used. On a GPU the
    process's share of memory is limited to `training.memory_fraction`.
    """
    if config.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if config.device == "cuda":
            logger.warning("training.device = 'cuda', but no GPU is usable here; using the CPU")
        else:
            logger.info("training.device = 'auto': no GPU found, using the CPU")
        return torch.device("cpu")
    device = torch.device("cuda", torch.cuda.current_device())
    if config.memory_fraction < 1:
        torch.cuda.set_per_process_memory_fraction(config.memory_fraction, device)
    logger.info("training on %s (%s)", device, torch.cuda.get_device_name(device))
    return device


@contextmanager
def execution(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """A fixed number of threads and deterministic kernels for the block; restored afterwards.

    On a GPU a kernel without a deterministic form gives a warning and runs.
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    if device.type == "cuda":
        # cuBLAS is deterministic only with a fixed workspace.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(config.threads)
    torch.use_deterministic_algorithms(True, warn_only=device.type == "cuda")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.set_num_threads(threads)


def mixed_type(config: TrainingConfig, device: torch.device) -> torch.dtype | None:
    """The low precision of forward passes, or None for float32 throughout.

    'auto' is bfloat16 or else float16 on a GPU, and float32 on a CPU. Raises `ConfigError` for
    float16 on a CPU.
    """
    if config.precision == "bf16":
        return torch.bfloat16
    if config.precision == "fp16":
        if device.type == "cpu":
            raise ConfigError(
                "training.precision = 'fp16' needs a GPU, but this process trains on the CPU; "
                "use 'auto', 'bf16' or 'fp32'"
            )
        return torch.float16
    if config.precision == "auto" and device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return None


def forward_context(
    dtype: torch.dtype | None, device: torch.device
) -> AbstractContextManager[object]:
    """Autocast to `dtype` on `device`, or nothing."""
    if dtype is None:
        return nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def release_memory(device: torch.device) -> None:
    """Give cached device memory back, so that processes that share a GPU can take turns."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
