"""Client processes of a simulation, so that clients of models too large to stack use all cores.

A client always goes to the same process, which keeps its rows encoded; there is one model per
process however many clients there are. Sums are free of order, so the result is that of one
process, bit for bit.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from flwr.app import Message

from regionfed.bridge.contents import decode, encode
from regionfed.config.federation import FederationConfig
from regionfed.engine.worker import FAILED, Job, serve
from regionfed.errors import StateError
from regionfed.run.folder import RunFolder
from regionfed.training.device import resolve_device

logger = logging.getLogger(__name__)

WORTHWHILE = 200
"""Local trainings of a run from which processes, which take seconds to start, are worth it."""
STOP_SECONDS = 5.0


def usable_workers(config: FederationConfig, *, clients: int) -> int:
    """How many processes suit a run of so many clients here; 1: none beside this one."""
    if clients * config.run.rounds < WORTHWHILE:
        return 1
    if resolve_device(config.training).type != "cpu":
        return 1  # each process would hold a model in the same GPU's memory
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min((cores or 1) // config.training.threads, clients))


class ClientWorkers:
    """A fixed number of processes that do the clients' work of one run."""

    def __init__(self, config: FederationConfig, folder: RunFolder, *, count: int) -> None:
        self.count = count
        self._assigned = 0
        self._workers = [_Worker(config, folder, number) for number in range(1, count + 1)]

    def node(self, region: str, client: str) -> Callable[[Message], Message]:
        """What a client does with a message, done in the process that it is assigned to."""
        worker = self._workers[self._assigned % self.count]
        self._assigned += 1

        def handle(message: Message) -> Message:
            return worker.work(region, client, message)

        return handle

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """One process, which works on one message at a time."""

    def __init__(self, config: FederationConfig, folder: RunFolder, number: int) -> None:
        self._config, self._folder, self._number = config, folder, number
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve,
            args=(
                theirs,
                self._config.model_dump_json(),
                str(self._folder.logs / f"clients-{self._number}.log"),
            ),
            name=f"clients-{self._number}",
            daemon=True,
        )
        self._process.start()
        theirs.close()

    def work(self, region: str, client: str, message: Message) -> Message:
        """The client's reply. Raises StateError when the process fails or dies at the work."""
        job = Job(
            region=region,
            client=client,
            message_type=message.metadata.message_type,
            group=message.metadata.group_id,
            ttl=message.metadata.ttl,
        )
        with self._lock:
            try:
                self._connection.send_bytes(job.to_json())
                self._connection.send_bytes(b"".join(encode(message.content)))
                outcome = self._connection.recv_bytes()
                content = self._connection.recv_bytes()
            except (EOFError, OSError):
                raise StateError(self._restarted(region, client)) from None
        if outcome == FAILED:
            raise StateError(content.decode())
        return Message(decode([content]), reply_to=message)

    def _restarted(self, region: str, client: str) -> str:
        """Put a new process in the place of one that died; says what happened."""
        self._process.join(STOP_SECONDS)
        code = self._process.exitcode
        self._connection.close()
        self._start()
        reason = (
            f"the process of client {region}/{client} died with code {code} and was started anew; "
            "-9 is a kill, often for want of memory: use fewer --workers"
        )
        logger.warning("%s", reason)
        return reason

    def close(self) -> None:
        self._connection.close()
        self._process.join(STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
