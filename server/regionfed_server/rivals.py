"""What SCAFFOLD and FedBABU add to the server's step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regionfed.config.federation import FederationConfig
from regionfed.method.rivals import COUNTED
from regionfed.models.base import FederatedModel
from regionfed.models.flat import FlatLayout
from regionfed.models.head import head_mask
from regionfed_server.aggregate import Releases
from regionfed_server.state import GlobalState


@dataclass(frozen=True)
class RivalStep:
    """The rival's rule: `enrolled` clients in all regions, and elements that never move.

    `fixed` (d,) bool is FedBABU's head, which noise on a region's release must not move either.
    """

    enrolled: int = 0
    fixed: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls, config: FederationConfig, model: FederatedModel, layout: FlatLayout, *, enrolled: int
    ) -> RivalStep:
        """The rule of the configured strategy.

        Raises:
            ModelError: FedBABU with a model that names no head, or nothing else.
        """
        babu = config.method.strategy == "fedbabu"
        return cls(enrolled=enrolled, fixed=head_mask(model, layout) if babu else None)

    def finish(self, before: GlobalState, after: GlobalState, releases: Releases) -> GlobalState:
        """`after` the optimiser's step, with what the rival does beside it."""
        if self.fixed is not None:
            after = replace(after, theta=np.where(self.fixed, before.theta, after.theta))
        if releases.control is None or before.control is None:
            return after
        # c + (clients that answered / clients enrolled) * mean change of their c_i.
        share = np.float32(releases.control.weight / self.enrolled)
        counted = dict(before.shared.get(COUNTED, {}))
        counted |= dict.fromkeys(releases.vectors(), after.round)
        return replace(
            after,
            control=before.control + releases.control.mean() * share,
            shared={**after.shared, COUNTED: counted},
        )
