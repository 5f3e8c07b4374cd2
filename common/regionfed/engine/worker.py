"""What a client process of a simulation does: take a message, run the client's app, answer."""

from __future__ import annotations

import json
import logging
import signal
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Self

from flwr.app import Message, RecordDict

from regionfed.bridge.contents import decode, encode
from regionfed.config.current import set_current_config
from regionfed.config.federation import FederationConfig
from regionfed.flower import adapter
from regionfed.flower.local import local_context
from regionfed.logs import TEXT
from regionfed.privacy.simulation import simulation

logger = logging.getLogger(__name__)

DONE, FAILED = b"done", b"failed"


@dataclass(frozen=True)
class Job:
    """Whose message it is, and what Flower says of it beside its content."""

    region: str
    client: str
    message_type: str
    group: str
    ttl: float

    def to_json(self) -> bytes:
        """As it goes through the pipe."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def serve(connection: Connection, config: str, log: str) -> None:
    """Work on messages until the pipe closes. `config` is the whole configuration as JSON."""
    # Ctrl-C reaches the whole process group; the parent decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(filename=log, format=TEXT, level=logging.INFO, encoding="utf-8")
    set_current_config(FederationConfig.model_validate_json(config))
    adapter.adopt_identity(run_id=1)
    with simulation():
        while True:
            try:
                job = Job.from_json(connection.recv_bytes())
                content = decode([connection.recv_bytes()])
            except EOFError:
                return
            outcome, answer = _outcome(job, content)
            del content
            connection.send_bytes(outcome)
            connection.send_bytes(answer)


def _outcome(job: Job, content: RecordDict) -> tuple[bytes, bytes]:
    from regionfed_client.client_app import app

    message = Message(content, 1, job.message_type, ttl=job.ttl, group_id=job.group)
    context = local_context({"region": job.region, "client": job.client}, {})
    try:
        reply = app(message, context)
    except Exception as error:
        logger.exception("the work of client %s/%s failed", job.region, job.client)
        return FAILED, f"{type(error).__name__}: {error}".encode()
    return DONE, b"".join(encode(reply.content))
