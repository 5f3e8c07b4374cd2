"""`[run]`: what one run is called, how long it is, and where it writes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from regionfed.config.base import Section


class RunConfig(Section):
    """One run of the federation."""

    name: str = Field(
        default="run",
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Name of the run and of its folder: letters, digits, '.', '_' and '-'.",
    )
    seed: int = Field(
        default=7, ge=0, description="Seed of data, initial model, selection and training."
    )
    rounds: int = Field(default=5, ge=1, description="Global rounds.")
    evaluate_every: int = Field(
        default=1,
        ge=0,
        description="Evaluate after every k-th round and after the last; 0: only the last.",
    )
    output: Path = Field(
        default=Path("runs"), description="Folder in which the run's folder is made."
    )
    keep_checkpoints: int = Field(
        default=2, ge=1, description="Newest global checkpoints that are kept."
    )
