"""Exchange 1: what a client refuses to open (privacy section 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from secagg_rig import ME, REGION, RUN, Rig, masked, names, refused

from regionfed.secagg import (
    ClientState,
    DeviceKeys,
    Directory,
    SecAggClient,
    SignedConfig,
)
from regionfed.secagg import errors as e


@pytest.fixture
def rig() -> Rig:
    return Rig.create(5)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0.1},
        {"clip": 2.0},
        {"scale": 2.0**16},
        {"length": 6},
    ],
)
def test_a_changed_block_under_the_old_signature_is_refused(
    rig: Rig, change: dict[str, float]
) -> None:
    config = replace(rig.config, blocks=(replace(rig.config.blocks[0], **change),))
    message = replace(rig.start().open_message(), signed=SignedConfig(config, rig.signed.signature))
    refused(rig, e.UnsignedKey, lambda: rig.open(ME, message))


def test_a_configuration_signed_by_another_operator_is_refused(rig: Rig) -> None:
    other = Rig.create(3).operator.sign(rig.config)
    message = replace(rig.start().open_message(), signed=other)
    refused(rig, e.UnsignedKey, lambda: rig.open(ME, message))


@pytest.mark.parametrize(
    ("change", "term"),
    [
        ({"noise_multiplier": 0.1}, "noise_multiplier"),
        ({"clip": 2.0}, "clip"),
        ({"scale": 2.0**16}, "scale"),
    ],
)
def test_a_configuration_that_changes_within_the_run_is_refused(
    rig: Rig, change: dict[str, float], term: str
) -> None:
    masked(rig)
    block = replace(rig.config.blocks[0], **change)
    rig.signed = rig.operator.sign(replace(rig.config, blocks=(block,)))
    with pytest.raises(e.ConfigurationMismatch, match=term):
        rig.open(ME, rig.start(round=2).open_message())


def test_a_threshold_rule_that_changes_within_the_run_is_refused(rig: Rig) -> None:
    masked(rig)
    rig.signed = rig.operator.sign(
        replace(rig.config, threshold_numerator=9, threshold_denominator=10)
    )
    with pytest.raises(e.ConfigurationMismatch, match=r"threshold: 4 .* 5 in this round"):
        rig.open(ME, rig.start(round=2).open_message())


def test_another_threshold_is_refused(rig: Rig) -> None:
    message = replace(rig.start().open_message(), threshold=2)
    with pytest.raises(e.ConfigurationMismatch, match="threshold: 4"):
        rig.open(ME, message)


def test_another_directory_is_refused(rig: Rig) -> None:
    signed = rig.operator.sign(replace(rig.config, directory=bytes(32)))
    message = replace(rig.start().open_message(), signed=signed)
    refused(rig, e.ConfigurationMismatch, lambda: rig.open(ME, message))


def test_a_cohort_below_the_minimum_is_refused() -> None:
    rig = Rig.create(6)
    message = replace(rig.start().open_message(), cohort=tuple(names(2)), threshold=2)
    refused(rig, e.CohortTooSmall, lambda: rig.open(ME, message))


def test_a_cohort_so_large_that_the_sum_could_wrap_is_refused() -> None:
    rig = Rig.create(4)
    block = replace(rig.config.blocks[0], scale=2.0**30)
    rig.signed = rig.operator.sign(replace(rig.config, blocks=(block,)))
    with pytest.raises(e.ValueOutOfRange, match="can pass 2147483647 and wrap"):
        rig.start()
    coordinator = Rig.create(4).start()
    context = replace(coordinator.state.context, configuration=rig.config.digest)
    message = replace(coordinator.open_message(), signed=rig.signed, context=context)
    refused(rig, e.ValueOutOfRange, lambda: rig.open(ME, message))


@pytest.mark.parametrize(
    "cohort",
    [
        ("client-001", "client-000", "client-002"),
        ("client-000", "client-001", "client-001", "client-002"),
    ],
)
def test_a_cohort_in_disorder_is_refused(rig: Rig, cohort: tuple[str, ...]) -> None:
    message = replace(rig.start().open_message(), cohort=cohort)
    refused(rig, e.RosterMismatch, lambda: rig.open(ME, message))


@pytest.mark.parametrize("cohort", [[*names(3), "stranger"], ["client-000", *names(5)[2:]]])
def test_a_stranger_or_a_cohort_without_this_client_is_refused(rig: Rig, cohort: list[str]) -> None:
    message = replace(rig.start().open_message(), cohort=tuple(cohort))
    refused(rig, e.UnknownClient, lambda: rig.open(ME, message))


@pytest.mark.parametrize("field", ["run", "region", "configuration"])
def test_a_round_of_another_run_or_region_is_refused(rig: Rig, field: str) -> None:
    message = rig.start().open_message()
    context = replace(message.context, **{field: bytes(32) if field == "configuration" else "x"})
    refused(rig, e.WrongContext, lambda: rig.open(ME, replace(message, context=context)))


def test_a_replayed_opening_is_refused(rig: Rig) -> None:
    first, second = rig.start().open_message(), rig.start().open_message()
    rig.open(ME, first)
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, first))
    rig.open(ME, second)  # a new attempt has a fresh nonce
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, first))


def test_a_completed_round_is_not_opened_again(rig: Rig) -> None:
    coordinator = masked(rig)
    rig.unmask(ME, coordinator.unmask_message(ME))
    refused(rig, e.ReplayedRound, lambda: rig.open(ME, rig.start().open_message()))


def test_an_older_round_is_not_opened(rig: Rig) -> None:
    rig.open(ME, rig.start(round=5).open_message())
    refused(rig, e.StageRegression, lambda: rig.open(ME, rig.start(round=4).open_message()))


def test_a_device_whose_enrolled_key_was_exchanged_does_not_start(rig: Rig) -> None:
    forged = [DeviceKeys.create(ME).enrolment]
    kept = [entry for name, entry in rig.directory.entries.items() if name != ME]
    with pytest.raises(e.OwnKeyAltered):
        SecAggClient(
            keys=rig.keys[ME],
            directory=Directory.of([*kept, *forged]),
            operator=rig.operator.public,
            state=ClientState(RUN, REGION),
        )
