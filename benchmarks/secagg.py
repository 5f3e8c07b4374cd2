"""What secure aggregation costs: mask throughput, and seconds and memory of both sides.

    python benchmarks/secagg.py [--json] [--case small|large|all]

Throughput is that of one mask over a vector in memory, beside AES-256-CTR alone and a plain sum of
two vectors in the same run. Each side of each case runs in a process of its own, so that its peak
memory is its own; the coordinator's sum is checked against the plain one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from regionfed.secagg import (
    Block,
    ClientState,
    DeviceKeys,
    Directory,
    OperatorKey,
    SecAggClient,
    SecAggConfig,
    SecAggCoordinator,
    encode,
)
from regionfed.secagg.masks import BLOCK_WORDS, MaskStream, apply_masks

CASES = {"small": (295_000, 100, 2.0**16), "large": (60_500_000, 10, 2.0**20)}
THROUGHPUT_WORDS = 16_000_000


def peak_mib() -> float:
    """Largest resident size of this program so far (getrusage would count the parent's too)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("no VmHWM in /proc/self/status; run this benchmark on Linux")


class Stopwatch:
    """Sums wall and processor seconds by step; they differ where others use the machine too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, *, share: int = 1) -> Iterator[None]:
        """Time a step; of `share` equal ones, so that the total is that of one."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        taken = (time.perf_counter() - wall, time.process_time() - processor)
        for key, value in zip((f"{name}_s", f"{name}_cpu_s"), taken, strict=True):
            self.seconds[key] = self.seconds.get(key, 0.0) + value / share


def best_seconds(step: Callable[[], object], *, repeats: int = 5) -> float:
    """Shortest of several runs, in processor seconds: other work on the machine counts least."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def throughput() -> dict[str, float]:
    """GB/s of the cipher alone, of a plain sum, and of masking and unmasking with ten streams."""
    size = 4 * THROUGHPUT_WORDS
    vector = np.zeros(THROUGHPUT_WORDS, dtype=np.uint32)
    other = np.ones(THROUGHPUT_WORDS, dtype=np.uint32)
    zeros = memoryview(bytes(4 * BLOCK_WORDS))
    buffer = bytearray(4 * BLOCK_WORDS + 16)

    def cipher() -> None:
        encryptor = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()
        for start in range(0, size, 4 * BLOCK_WORDS):
            encryptor.update_into(zeros[: min(4 * BLOCK_WORDS, size - start)], buffer)

    def masks(negative: bool) -> list[MaskStream]:
        return [MaskStream(bytes([index]) * 32, negative) for index in range(10)]

    return {
        "aes_256_ctr": size / best_seconds(cipher) / 1e9,
        "plain_sum": size / best_seconds(lambda: np.add(vector, other, out=vector)) / 1e9,
        "mask": 10 * size / best_seconds(lambda: apply_masks(vector, masks(False))) / 1e9,
        "unmask": 10 * size / best_seconds(lambda: apply_masks(vector, masks(True))) / 1e9,
    }


class Region:
    """Clients that have opened a round, and its coordinator."""

    def __init__(self, length: int, clients: int, scale: float) -> None:
        self.keys = {
            name: DeviceKeys.create(name) for name in (f"client-{i:03d}" for i in range(clients))
        }
        self.directory = Directory.of(device.enrolment for device in self.keys.values())
        self.operator = OperatorKey.create()
        blocks = (Block("update", length, clip=1.0, scale=scale, noise_multiplier=4.0),)
        self.config = SecAggConfig(blocks=blocks, directory=self.directory.digest)
        self.coordinator = SecAggCoordinator.start(
            signed=self.operator.sign(self.config),
            directory=self.directory,
            run="benchmark",
            region="here",
            round=1,
            cohort=list(self.keys),
        )
        self.clients = {
            name: SecAggClient(
                keys=device,
                directory=self.directory,
                operator=self.operator.public,
                state=ClientState("benchmark", "here"),
            )
            for name, device in self.keys.items()
        }
        self.watch = Stopwatch()
        for name, client in self.clients.items():
            with self.watch.step("client_open", share=clients):
                reply = client.open(self.coordinator.open_message())
            with self.watch.step("open"):
                self.coordinator.receive_open(name, reply)
        self.coordinator.close_opening()


def client_side(length: int, clients: int, scale: float) -> dict[str, float]:
    """One client: keys and shares, encoding, masking."""
    region = Region(length, clients, scale)
    name, client = next(iter(region.clients.items()))
    update = np.random.default_rng(0).standard_normal(length, dtype=np.float32)
    before = peak_mib()
    with region.watch.step("encode"):
        vector = encode({"update": update}, region.config)
    with region.watch.step("mask"):
        client.mask(region.coordinator.mask_message(name), vector)
    return {**region.watch.seconds, "before_mib": before, "peak_mib": peak_mib()}


def coordinator_side(length: int, clients: int, scale: float, *, lost: bool) -> dict[str, float]:
    """The coordinator: everyone delivers, or as many are lost as the threshold allows."""
    region = Region(length, clients, scale)
    coordinator = region.coordinator
    dropped = clients - coordinator.graph.threshold if lost else 0
    survivors = list(region.clients)[dropped:]
    before = peak_mib()
    expected = 0
    for number, name in enumerate(survivors):
        vector = np.full(length, number, dtype=np.uint32)
        expected += number
        reply = region.clients[name].mask(coordinator.mask_message(name), vector)
        with region.watch.step("accumulate"):
            coordinator.receive_masked(name, reply, vector)
        del vector
    coordinator.close_masking()
    needed = coordinator.graph.threshold
    for name in survivors[:needed]:
        request = coordinator.unmask_message(name)
        with region.watch.step("client_unmask", share=needed):
            answer = region.clients[name].unmask(request)
        with region.watch.step("shares"):
            coordinator.receive_unmask(name, answer)
    with region.watch.step("unmask"):
        total = coordinator.finish()
    if not np.all(total == expected):
        raise SystemExit("the unmasked sum is not the plain sum")
    return {
        "dropped": dropped,
        **region.watch.seconds,
        "before_mib": before,
        "peak_mib": peak_mib(),
    }


def in_own_process(case: str, side: str) -> dict[str, float]:
    """Run one side of a case in a fresh interpreter."""
    command = [sys.executable, __file__, "--case", case, "--side", side]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise SystemExit(f"{case} {side} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def run_side(case: str, side: str) -> dict[str, float]:
    """One side of a case, in this process."""
    length, clients, scale = CASES[case]
    if side == "client":
        return client_side(length, clients, scale)
    return coordinator_side(length, clients, scale, lost=side == "coordinator-lost")


def report(results: dict[str, Any]) -> None:
    """Print the measurements as tables."""
    rates = results["throughput_gb_s"]
    print("GB/s on one core")
    for name, rate in rates.items():
        print(f"  {name:12s} {rate:6.2f}   {rate / rates['aes_256_ctr']:5.2f} of the cipher's own")
    for case, sides in results["cases"].items():
        length, clients, _ = CASES[case]
        print(f"\n{case}: d = {length:,}, {clients} clients, a vector is {length / 2**18:.1f} MiB")
        for side, numbers in sides.items():
            print(f"  {side}")
            for key, value in numbers.items():
                print(f"    {key:20s} {value:10.4g}")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(run_side(arguments.case, arguments.side)))
        return
    sides = ("client", "coordinator", "coordinator-lost")
    cases = list(CASES) if arguments.case == "all" else [arguments.case]
    results: dict[str, Any] = {
        "throughput_gb_s": throughput(),
        "cases": {case: {side: in_own_process(case, side) for side in sides} for case in cases},
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        report(results)


if __name__ == "__main__":
    main()
