"""SCAFFOLD in a region: which of its clients' control variates the global c counts.

A client moves c_i in a round, and c follows when the region's release of that round has been
taken in. An answer or a release that was lost did not move c, so the client must go on from the c_i
before it. The server's orders say which release of the region was the last that it took in, and
the region keeps, by client, the rounds whose release had its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from regionfed.messages import RegionOrder, TrainOrder
from regionfed.method.rivals import COUNTED

Rounds = dict[str, list[int]]
"""By client: the last rounds in which its c_i moved, ascending."""


def counted_rounds(rounds: Mapping[str, Sequence[int]], order: RegionOrder, region: str) -> Rounds:
    """`rounds` without those whose release the server of this order has not taken in."""
    last = int(dict(order.shared.get(COUNTED, {})).get(region, 0))
    kept = {name: [round for round in own if round <= last] for name, own in rounds.items()}
    return {name: own for name, own in kept.items() if own}


def with_answers(rounds: Rounds, names: Iterable[str], *, round: int, keep: int) -> Rounds:
    """`rounds` after a release with the answers of `names`; the newest `keep` by client."""
    added = {name: [*rounds.get(name, []), round][-keep:] for name in names}
    return {**rounds, **added}


def control_orders(
    message: TrainOrder, order: RegionOrder, cohort: Sequence[str], rounds: Rounds
) -> dict[str, TrainOrder]:
    """The order of each client: with c, and the round of its c_i that c counts.

    Clients of equal rounds share one message, so that c is held once.
    """
    by_round: dict[int, TrainOrder] = {}
    orders: dict[str, TrainOrder] = {}
    for name in cohort:
        last = rounds.get(name, [0])[-1]
        if last not in by_round:
            by_round[last] = replace(message, control=order.control, control_round=last)
        orders[name] = by_round[last]
    return orders
