"""One message that unmasks a round and opens the next: the device answers both, or the first, or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from secagg_rig import ME, Rig, masked, plain_sum

from regionfed.errors import SecureAggregationError
from regionfed.messages import SecureOrder, pack_step, unpack_step
from regionfed.secagg import OpenReply, SecAggCoordinator, UnmaskReply
from regionfed.secagg.errors import AliveAndDead, SecondUnmaskRequest
from regionfed.secagg.storage import read_private
from regionfed_client.secure import SecureDevice


def device(rig: Rig, path: Path, name: str = ME) -> SecureDevice:
    """The device as the process of a new message finds it."""
    if path.exists():
        rig.states[name] = read_private(path)
    return SecureDevice(name, rig.client(name), path, rig.config)


def joined(
    coordinator: SecAggCoordinator, following: SecAggCoordinator, name: str = ME
) -> SecureOrder:
    return SecureOrder(
        run="run-7",
        region="north",
        round=1,
        digest="",
        channel="train",
        step=pack_step(coordinator.unmask_message(name).to_fields()),
        following=pack_step(following.open_message().to_fields()),
    )


def test_rounds_that_are_joined_sum_as_rounds_apart(tmp_path: Path) -> None:
    rig = Rig.create(5)
    vectors = rig.vectors()
    first, following = masked(rig), rig.start(round=2)
    for name in first.survivors:
        answer = device(rig, tmp_path / name, name).step(joined(first, following, name))
        rig.states[name] = read_private(tmp_path / name)
        first.receive_unmask(name, UnmaskReply.from_fields(unpack_step(answer.step)))
        following.receive_open(name, OpenReply.from_fields(unpack_step(answer.following)))
    np.testing.assert_array_equal(first.finish(), plain_sum(vectors, rig.keys))
    following.close_opening()
    for name, (reply, words) in rig.masked(following, vectors).items():
        following.receive_masked(name, reply, words)
    following.close_masking()
    for name in following.survivors:
        following.receive_unmask(name, rig.unmask(name, following.unmask_message(name)))
    np.testing.assert_array_equal(following.finish(), plain_sum(vectors, rig.keys))


def test_a_refused_opening_leaves_the_unmasking(tmp_path: Path) -> None:
    rig = Rig.create(4)
    first = masked(rig)
    # A round that is over cannot be opened.
    answer = device(rig, tmp_path / ME).step(joined(first, rig.start(round=1)))
    first.receive_unmask(ME, UnmaskReply.from_fields(unpack_step(answer.step)))
    assert answer.following == b""


@pytest.mark.parametrize("attack", ["second request", "alive and dead"])
def test_a_refused_unmasking_opens_nothing(tmp_path: Path, attack: str) -> None:
    rig = Rig.create(4)
    first, following = masked(rig), rig.start(round=2)
    order = joined(first, following)
    error: type[SecureAggregationError] = SecondUnmaskRequest
    path = tmp_path / ME
    if attack == "second request":
        device(rig, path).step(order)
    else:
        error = AliveAndDead
        fields = unpack_step(order.step)
        fields["dropped"] = fields["survivors"]
        order = SecureOrder(**{**vars(order), "step": pack_step(fields)})
    before = path.read_bytes() if path.exists() else None
    again = SecureOrder(
        **{**vars(order), "following": pack_step(rig.start(round=3).open_message().to_fields())}
    )
    with pytest.raises(error):
        device(rig, path).step(again)
    assert (path.read_bytes() if path.exists() else None) == before
