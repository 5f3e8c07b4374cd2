"""The device's side of secure aggregation, across the fresh process of each message."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from regionfed.errors import IdentityError, SecureAggregationError, UpdateError
from regionfed.identity.secure_files import (
    DEVICE,
    OPERATOR,
    client_identity,
    load_directory,
    region_identity,
)
from regionfed.messages import SecureAnswer, SecureOrder, pack_step, unpack_step
from regionfed.messages.summed import Scalar
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms
from regionfed.secagg import (
    ClientState,
    DeviceKeys,
    MaskRequest,
    RoundOpen,
    SecAggClient,
    SecAggConfig,
    UnmaskRequest,
    load_operator_public,
    read_private,
    write_private,
)
from regionfed.secagg.errors import ConfigurationMismatch
from regionfed.secagg.masks import Words
from regionfed_client.device import device_folder
from regionfed_client.runtime import ClientRuntime

logger = logging.getLogger(__name__)


@dataclass
class SecureDevice:
    """One device in one channel of a run. Its state is on disk before any answer leaves."""

    name: str
    client: SecAggClient
    path: Path
    config: SecAggConfig

    @classmethod
    def open(
        cls, runtime: ClientRuntime, terms: RegionTerms, *, run: str, channel: Channel
    ) -> SecureDevice:
        """Load keys, directory and state.

        Raises:
            IdentityError: a key file is missing, damaged or open to other users.
            SecureAggregationError: the directory has other keys, or the state is damaged.
        """
        keys = DeviceKeys.load(client_identity(runtime.region, runtime.client) / DEVICE)
        if keys.name != runtime.client:
            raise IdentityError(
                f"the device key here is of {keys.name!r}, this client is {runtime.client!r}"
            )
        shared = region_identity(runtime.region)
        directory = load_directory(shared)
        folder = device_folder(runtime, purpose="secure aggregation")
        path = folder / f"secagg-{channel.value}.state"
        name = f"{run}/{channel.value}"
        state = ClientState(name, runtime.region)
        if path.exists():
            kept = ClientState.from_bytes(read_private(path))
            state = kept if kept.run == name else state
        client = SecAggClient(
            keys=keys,
            directory=directory,
            operator=load_operator_public(shared / OPERATOR),
            state=state,
        )
        return cls(keys.name, client, path, terms.secagg(channel, directory=directory.digest))

    def step(self, order: SecureOrder) -> SecureAnswer:
        """Answer an opening or an unmasking (exchanges 1 and 3), and then the next opening.

        The two are answered one after the other, as if they had come apart; a refusal of the
        second leaves the first as it is.
        """
        fields = unpack_step(order.step)
        following = b""
        if fields.get("message") == UnmaskRequest.KIND:
            reply = self.client.unmask(UnmaskRequest.from_fields(fields)).to_fields()
            if order.following:
                following = self._opened_ahead(order.following)
        else:
            reply = self._opened(fields)
        self._save()
        step = pack_step(reply)
        return SecureAnswer(client=self.name, round=order.round, step=step, following=following)

    def _opened(self, fields: dict[str, Scalar]) -> dict[str, Scalar]:
        message = RoundOpen.from_fields(fields)
        self._require_own_terms(message.signed.config, clients=len(message.cohort))
        return dict(self.client.open(message).to_fields())

    def _opened_ahead(self, step: bytes) -> bytes:
        try:
            return pack_step(self._opened(unpack_step(step)))
        except (SecureAggregationError, UpdateError) as error:
            logger.warning("the next round is not opened ahead: %s", error)
            return b""

    def mask(self, step: bytes, words: Words) -> bytes:
        """Mask `words` in place (exchange 2) and return the packed receipt."""
        reply = self.client.mask(MaskRequest.from_fields(unpack_step(step)), words)
        self._save()
        return pack_step(reply.to_fields())

    def _require_own_terms(self, signed: SecAggConfig, *, clients: int) -> None:
        """What the operator signed must be what this device's own configuration says."""
        if signed != self.config:
            self.config.check_terms(signed.terms(clients), clients=clients)
            raise ConfigurationMismatch(
                "the signed configuration differs from this device's federation file in its "
                "cohort rules or directory; fetch both again"
            )

    def _save(self) -> None:
        write_private(self.path, self.client.state.to_bytes())
