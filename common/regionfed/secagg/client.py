"""The client's side of a round: three answers, each checked before anything secret is used.

    client = SecAggClient(keys=..., directory=..., operator=..., state=ClientState(run, region))
    reply = client.open(RoundOpen.from_fields(...))           # exchange 1
    reply = client.mask(MaskRequest.from_fields(...), words)  # exchange 2, words change in place
    reply = client.unmask(UnmaskRequest.from_fields(...))     # exchange 3

Persist `client.state` after each call and before the reply is sent: a device that forgets a step
it has answered could be asked to answer it again. A refused call leaves the state as it was.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from regionfed.secagg import shamir
from regionfed.secagg.advertisement import (
    Advertisement,
    cohort_digest,
    receipt_bytes,
    roster_binding,
    share_binding,
)
from regionfed.secagg.client_checks import (
    check_new_round,
    check_receipts,
    check_roster,
    live_round,
)
from regionfed.secagg.client_state import ClientState, RoundSecrets, Stage
from regionfed.secagg.config import SecAggConfig
from regionfed.secagg.errors import (
    ConfigurationMismatch,
    OwnKeyAltered,
    RosterMismatch,
    SecondUnmaskRequest,
    StageRegression,
    TooFewSurvivors,
    UnknownClient,
    WrongContext,
)
from regionfed.secagg.graph import MaskGraph
from regionfed.secagg.identity import DeviceKeys, Directory
from regionfed.secagg.keys import pair_mask_key, self_mask_key
from regionfed.secagg.masks import MaskStream, Words, apply_masks, require_words
from regionfed.secagg.messages import (
    MaskReply,
    MaskRequest,
    OpenReply,
    RoundOpen,
    Share,
    UnmaskReply,
    UnmaskRequest,
)
from regionfed.secagg.roster_checks import check_cohort_names, check_outcome
from regionfed.secagg.shares import commit, make_shares, parse_shares, seal, unseal


class SecAggClient:
    """State machine of one device in one run of one region.

    keys: the device's own. directory: the enrolled devices. operator: the key that signs
    configurations, from enrolment. state: what `state` was after the last message.
    """

    def __init__(
        self,
        *,
        keys: DeviceKeys,
        directory: Directory,
        operator: Ed25519PublicKey,
        state: ClientState,
    ) -> None:
        own = keys.enrolment
        entry = directory[keys.name]
        if (entry.identity, entry.agreement) != (own.identity, own.agreement):
            raise OwnKeyAltered(
                f"the directory has other keys for {keys.name!r} than this device; fetch the "
                "directory again, or enrol the device anew"
            )
        self._keys = keys
        self._directory = directory
        self._operator = operator
        self.state = state

    def open(self, message: RoundOpen) -> OpenReply:
        """Make fresh keys and share their secrets among the neighbours (exchange 1).

        Raises UnsignedKey, ConfigurationMismatch, WrongContext, ReplayedRound, StageRegression,
        CohortTooSmall, ValueOutOfRange, RosterMismatch or UnknownClient.
        """
        config = self._check_configuration(message)
        check_new_round(self.state, message.context)
        context, cohort, me = message.context, message.cohort, self._keys.name
        check_cohort_names(cohort, self._directory)
        if me not in cohort:
            raise UnknownClient(f"this client, {me!r}, is not in the cohort it is asked to join")
        config.check_cohort(len(cohort))
        graph = MaskGraph(context, config, cohort)
        if message.threshold != graph.threshold:
            raise ConfigurationMismatch(
                f"threshold: {graph.threshold} by the signed configuration for {len(cohort)} "
                f"clients, {message.threshold} in this round"
            )
        mask_private, share_private = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        seed = secrets.token_bytes(shamir.SECRET_BYTES)
        unsigned = Advertisement(
            name=me,
            context=context.digest,
            cohort=cohort_digest(cohort),
            mask_key=mask_private.public_key().public_bytes_raw(),
            share_key=share_private.public_key().public_bytes_raw(),
            seed_commitment=commit(seed),
        )
        advertisement = replace(unsigned, signature=self._keys.identity.sign(unsigned.signed_bytes))
        plain = make_shares(graph, me, seed=seed, mask_private=mask_private.private_bytes_raw())
        sealed = tuple(
            (
                holder,
                seal(
                    share_private,
                    self._directory[holder],
                    plain[holder],
                    binding=share_binding(context, unsigned.cohort, sender=me, recipient=holder),
                ),
            )
            for holder in graph.holders(me)
            if holder != me
        )
        opened = RoundSecrets(
            context=context,
            stage=Stage.OPENED,
            cohort=cohort,
            advertisement=advertisement.to_bytes(),
            mask_private=mask_private.private_bytes_raw(),
            seed=seed,
            own_shares=plain[me],
        )
        again = context.round == self.state.newest
        self.state = replace(
            self.state.with_round(opened),
            configuration=config.to_bytes(),
            newest=context.round,
            nonces=(*(self.state.nonces if again else ()), context.nonce),
        )
        return OpenReply(context, advertisement, sealed)

    def mask(self, message: MaskRequest, vector: Words) -> MaskReply:
        """Mask the encoded vector in place against the roster (exchange 2).

        vector: uint32 of the configuration's length, from `encode`.

        Raises what `open` does for keys and terms, OwnKeyAltered, DuplicateKey, LowOrderKey,
        TooFewSurvivors for a roster below t, VectorInvalid, and StageRegression when this round
        was masked before (a second vector under the same masks would reveal their difference).
        """
        current = live_round(self.state, message.context)
        if current.stage is not Stage.OPENED:
            raise StageRegression(
                f"round {message.context.round} is already {current.stage}; a vector is masked "
                "once only"
            )
        config = SecAggConfig.from_bytes(self.state.configuration)
        config.check_terms(message.terms, clients=len(current.cohort))
        graph = MaskGraph(message.context, config, current.cohort)
        near = check_roster(message, current, graph, me=self._keys.name, directory=self._directory)
        require_words(vector, length=config.length)
        binding = roster_binding(message.context, message.roster)
        me = self._keys.name
        apply_masks(vector, self._streams(current, near, graph, binding))
        receipt = self._keys.identity.sign(receipt_bytes(me, binding))
        self.state = self.state.with_round(
            replace(
                current,
                stage=Stage.MASKED,
                roster=message.roster,
                neighbours=tuple(entry for entry in near if entry.name != me),
            )
        )
        return MaskReply(message.context, me, receipt)

    def unmask(self, message: UnmaskRequest) -> UnmaskReply:
        """Hand out one share for each neighbour: of its seed or of its mask key (exchange 3).

        Raises SecondUnmaskRequest, StageRegression, AliveAndDead, RosterMismatch,
        TooFewSurvivors, UnsignedKey (a survivor without its receipt for this roster),
        ShareUnreadable, ShareIndexInvalid or ShareLengthInvalid.
        """
        current = live_round(self.state, message.context)
        if current.stage is Stage.UNMASKED:
            raise SecondUnmaskRequest(
                f"round {message.context.round} was unmasked already; its shares are handed out "
                "once only"
            )
        if current.stage is not Stage.MASKED:
            raise StageRegression(f"round {message.context.round} was not masked by this client")
        config = SecAggConfig.from_bytes(self.state.configuration)
        graph = MaskGraph(message.context, config, current.cohort)
        me = self._keys.name
        roster = [name for name, _ in current.roster]
        check_outcome(message.survivors, message.dropped, roster=roster, threshold=graph.threshold)
        if me not in message.survivors:
            raise RosterMismatch(f"this client, {me!r}, delivered its vector and is called dropped")
        alive = set(message.survivors)
        check_receipts(message, current, alive=alive, directory=self._directory)
        near_alive = 1 + sum(entry.name in alive for entry in current.neighbours)
        if near_alive < graph.share_threshold:
            raise TooFewSurvivors(
                f"{near_alive} survivors around {me!r}, t = {graph.share_threshold} there; the "
                "round is abandoned"
            )
        seeds, keys = self._select_shares(message, current, graph, alive)
        self.state = replace(
            self.state.with_round(RoundSecrets(context=message.context, stage=Stage.UNMASKED)),
            answered=max(self.state.answered, message.context.round),
        )
        return UnmaskReply(message.context, me, seeds, keys)

    def _check_configuration(self, message: RoundOpen) -> SecAggConfig:
        config = message.signed.verify(self._operator)
        if config.directory != self._directory.digest:
            raise ConfigurationMismatch(
                "directory: the signed configuration refers to other enrolled devices than this "
                "client's directory file; fetch the directory again"
            )
        if message.context.configuration != config.digest:
            raise WrongContext("the round's context refers to another configuration than it sends")
        pinned = self.state.configuration
        if pinned and pinned != config.to_bytes():
            SecAggConfig.from_bytes(pinned).check_terms(
                config.terms(len(message.cohort)), clients=len(message.cohort)
            )
            raise ConfigurationMismatch(
                "the signed configuration changed within the run; start a new run for it"
            )
        return config

    def _streams(
        self,
        current: RoundSecrets,
        near: tuple[Advertisement, ...],
        graph: MaskGraph,
        binding: bytes,
    ) -> list[MaskStream]:
        me = self._keys.name
        private = X25519PrivateKey.from_private_bytes(current.mask_private)
        streams = [MaskStream(self_mask_key(current.seed, binding=binding, name=me), False)]
        for entry in near:
            if entry.name == me:
                continue
            negative = graph.index[me] > graph.index[entry.name]
            pair = (entry.name, me) if negative else (me, entry.name)
            key = pair_mask_key(
                private, entry.mask_key, owner=entry.name, binding=binding, pair=pair
            )
            streams.append(MaskStream(key, negative))
        return streams

    def _select_shares(
        self, message: UnmaskRequest, current: RoundSecrets, graph: MaskGraph, alive: set[str]
    ) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
        me = self._keys.name
        index = graph.index[me]
        sealed = dict(message.sealed)
        if sorted(sealed) != sorted(entry.name for entry in current.neighbours):
            raise RosterMismatch("the request must carry the sealed shares of every neighbour")
        seeds = [Share(me, index, parse_shares(current.own_shares, index=index, sender=me)[0])]
        keys = []
        for entry in current.neighbours:
            seed_share, key_share = unseal(
                self._keys.agreement,
                entry.share_key,
                sealed[entry.name],
                binding=share_binding(
                    current.context, entry.cohort, sender=entry.name, recipient=me
                ),
                sender=entry.name,
                index=index,
            )
            if entry.name in alive:
                seeds.append(Share(entry.name, index, seed_share))
            else:
                keys.append(Share(entry.name, index, key_share))
        return tuple(seeds), tuple(keys)
