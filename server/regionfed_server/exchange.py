"""The server's exchanges with regions: orders out, releases or reasons back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flwr.serverapp import Grid

from regionfed.config.federation import FederationConfig
from regionfed.flower.ask import Answers, ask
from regionfed.flower.roster import Roster
from regionfed.messages import RegionOrder, WireMessage


@dataclass
class Regions:
    """All regions as the global server reaches them."""

    config: FederationConfig
    grid: Grid
    roster: Roster
    names: tuple[str, ...]
    digest: str
    layout: str

    def join(self) -> list[str]:
        """Wait for the regions at start; the names that are there when all are, or in the end."""
        server = self.config.server
        return self.roster.wait_for(
            self.names, at_least=server.min_regions, deadline=server.join_deadline
        )

    def exchange(
        self,
        order: RegionOrder,
        *,
        phase: str,
        reply: type[WireMessage],
        on_answer: Callable[[str, WireMessage], None],
    ) -> Answers:
        """Send one order to every region; answers are handed on as they arrive."""
        record = order.to_record()
        return ask(
            self.grid,
            self.roster,
            dict.fromkeys(self.names, record),
            message_type=phase,
            group=f"{order.run}:{order.round}:{phase}",
            deadline=self.config.server.round_deadline,
            poll=self.config.network.poll,
            on_answer=lambda name, content: on_answer(name, reply.from_record(content)),
        )
