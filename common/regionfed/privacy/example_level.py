"""Example-level privacy: a client trains by Opacus DP-SGD, the unit is one of its examples.

Beside the modes, not one of them: its event is of its own kind and its epsilon is never added to
a client's. A model is checked before anything is wrapped, and each refusal names the layer and
what to use instead.
"""

from __future__ import annotations

import secrets
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from regionfed.errors import ExampleLevelRefused, PrivacyError
from regionfed.privacy.events import ExampleLevelTraining
from regionfed.privacy.noise_source import NoiseSource


@dataclass(frozen=True)
class LayerRefusal:
    """One layer that DP-SGD cannot train, why, and the fix."""

    layer: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.reason}; {self.fix}"


@dataclass(frozen=True)
class PrivateTraining:
    """What `make_private` returns: train with these three as with the originals, then `close`."""

    module: Any
    optimizer: torch.optim.Optimizer
    loader: Any
    noise_multiplier: float
    sample_rate: float

    def close(self) -> None:
        """Take the hooks and per-example gradients off the module again."""
        module = self.module.to_standard_module()
        for parameter in module.parameters():
            if hasattr(parameter, "summed_grad"):
                del parameter.summed_grad

    def event(
        self, *, client: str, round: int, steps: int, attempt: int = 0
    ) -> ExampleLevelTraining:
        """The ledger's event for `steps` optimizer steps in one round."""
        return ExampleLevelTraining(
            round=round,
            attempt=attempt,
            client=client,
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.sample_rate,
            steps=steps,
        )


_FIXES: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.modules.batchnorm._BatchNorm, "use nn.GroupNorm, whose statistics stay within one example"),
    (nn.modules.instancenorm._InstanceNorm, "set track_running_stats=False or use nn.GroupNorm"),
    (nn.MultiheadAttention, "use opacus.layers.DPMultiheadAttention"),
    (nn.LSTM, "use opacus.layers.DPLSTM"),
    (nn.GRU, "use opacus.layers.DPGRU"),
    (nn.RNN, "use opacus.layers.DPRNN"),
)


def _opacus() -> Any:
    try:
        import opacus
        import opacus.validators
    except ImportError as error:
        raise PrivacyError(
            f"example-level privacy needs the `example-dp` extra ({error}); "
            "install it with: pip install 'regionfed[example-dp]'"
        ) from error
    return opacus


def refusals(module: nn.Module) -> list[LayerRefusal]:
    """Every layer that DP-SGD cannot train, by name; empty when there is none.

    The module must stand in training mode, as it will be trained.

    Opacus' validator decides about layer types; tied parameters and trainable layers with buffers
    are found here, because per-example gradients of a tied parameter would be counted apart.
    """
    opacus = _opacus()
    found = [*_tied(module)]
    validators = opacus.validators.ModuleValidator.VALIDATORS
    for name, layer in module.named_modules():
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        inside = any(p.requires_grad for p in layer.parameters())
        errors = validators[type(layer)](layer) if type(layer) in validators and inside else []
        where = f"{name or 'the model'} ({type(layer).__name__})"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training and not inside:
            found.append(
                LayerRefusal(
                    where,
                    "it does not train, but normalises by the statistics of the batch, so that "
                    "examples influence each other",
                    "keep it in evaluation mode, or use nn.GroupNorm",
                )
            )
        elif errors:
            reason = str(errors[0]).split(". ")[0].strip().rstrip(".")
            found.append(LayerRefusal(where, reason, _fix(layer)))
        elif own and any(True for _ in layer.buffers(recurse=False)):
            found.append(
                LayerRefusal(
                    where,
                    "a trainable layer with buffers lets examples influence each other",
                    "replace it by a layer without buffers, or freeze it",
                )
            )
    return found


def require_supported(module: nn.Module) -> None:
    """Raise ExampleLevelRefused that lists every refused layer with its fix."""
    refuse(refusals(module))


def refuse(problems: list[LayerRefusal]) -> None:
    """Raise ExampleLevelRefused for any problems."""
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise ExampleLevelRefused(
            f"example-level privacy cannot train this model ({len(problems)} refusals):{lines}\n"
            "Fix them, or set privacy.example_level = false; client-level privacy takes any model"
        )


@contextmanager
def hooked(module: nn.Module) -> Iterator[None]:
    """Opacus' hooks on a module: backward passes fill each parameter's `grad_sample`."""
    hooks = _opacus().GradSampleModule(module)
    try:
        yield
    finally:
        hooks.to_standard_module()


def make_private(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: Any,
    *,
    noise_multiplier: float,
    max_grad_norm: float,
) -> PrivateTraining:
    """Wrap a client's training in DP-SGD with Poisson batches.

    The batches of a pass are Poisson samples at a rate of 1/len(loader), drawn by a torch generator
    that the operating system seeds, never by the global one, which experiments seed with public
    numbers. The noise, which adversaries see sums of, comes from AES-256-CTR instead: Opacus' own
    secure mode needs a package that no longer builds for current PyTorch.

    Raises ExampleLevelRefused when a layer is refused, PrivacyError for bad numbers or a missing
    extra.
    """
    opacus = _opacus()
    if noise_multiplier <= 0.0 or max_grad_norm <= 0.0:
        raise PrivacyError(
            f"example-level noise multiplier {noise_multiplier} and clipping norm {max_grad_norm} "
            "must be positive"
        )
    module.train()
    require_supported(module)
    loader = torch.utils.data.DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        collate_fn=loader.collate_fn,
        generator=torch.Generator().manual_seed(secrets.randbits(63)),
    )
    rate = 1.0 / len(loader)
    with warnings.catch_warnings():
        # It warns that its secure mode is off; the noise is replaced below.
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine()
    private, private_optimizer, private_loader = engine.make_private(
        module=module,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        poisson_sampling=True,
    )
    private_optimizer.add_noise = partial(_add_noise, private_optimizer, NoiseSource())
    return PrivateTraining(private, private_optimizer, private_loader, noise_multiplier, rate)


def _add_noise(optimizer: Any, source: NoiseSource) -> None:
    """Add N(0, (sigma*C)^2) to each clipped sum, in float64, in place of Opacus' own noise."""
    std = optimizer.noise_multiplier * optimizer.max_grad_norm
    for parameter in optimizer.params:
        noise = torch.from_numpy(std * source.normal(parameter.numel()))
        total = parameter.summed_grad.double() + noise.view_as(parameter).to(parameter.device)
        parameter.grad = total.to(parameter.dtype)


def _fix(layer: nn.Module) -> str:
    for kind, fix in _FIXES:
        if isinstance(layer, kind):
            return fix
    return "replace it by a layer that Opacus supports, or freeze it"


def _tied(module: nn.Module) -> list[LayerRefusal]:
    names: dict[int, list[str]] = defaultdict(list)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names[id(parameter)].append(name)
    return [
        LayerRefusal(
            " = ".join(group),
            "one parameter is used in several places (tied)",
            "untie it (tie_word_embeddings = false), freeze it, or train LoRA adapters only",
        )
        for group in names.values()
        if len(group) > 1
    ]
