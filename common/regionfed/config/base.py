"""What every configuration section has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the federation file: unknown keys are errors, values are read-only."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
