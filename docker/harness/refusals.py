"""Nodes that must not get in: each is refused, named by its own log, and named by the other side."""

from __future__ import annotations

from harness.stack import SERVER_IMAGE, UID, Stack, docker, output_of
from harness.tally import Tally

CLIENT_IMAGE = SERVER_IMAGE.replace("server", "client")
COORDINATOR_IMAGE = SERVER_IMAGE.replace("server", "coordinator")
REFUSED_KEY = "Attempted to register SuperNode with public key"
"""What a SuperLink (flwr 1.39) writes when it refuses a key."""
EXPIRE = """
from datetime import UTC, datetime, timedelta
from pathlib import Path
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
here = Path("/identity")
key = serialization.load_pem_private_key((here / "server.key").read_bytes(), None)
issuer_key = serialization.load_pem_private_key(Path("/authority/ca.key").read_bytes(), None)
issuer = x509.load_pem_x509_certificate((here / "ca.crt").read_bytes())
now = datetime.now(UTC)
name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "impostor")])
made = (
    x509.CertificateBuilder().subject_name(name).issuer_name(issuer.subject)
    .public_key(key.public_key()).serial_number(x509.random_serial_number())
    .not_valid_before(now - timedelta(days=9)).not_valid_after(now - timedelta(days=1))
    .add_extension(x509.SubjectAlternativeName([x509.DNSName("impostor")]), critical=False)
    .sign(issuer_key, hashes.SHA256())
)
(here / "server.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
"""


class Intruder:
    """A container beside the federation, on the network that a region's clients share."""

    def __init__(self, stack: Stack, region: str) -> None:
        self.stack, self.region = stack, region
        self.identity = f"{stack.project}_intruder-identity"
        self.other = [f"{stack.project}_intruder-{name}" for name in ("authority", "public")]

    def make_key(self, *, tier: str, client: str = "") -> None:
        """Make an identity of its own, as any site would."""
        names = ["-e", f"REGIONFED_TIER={tier}", "-e", f"REGIONFED_REGION={self.region}"]
        self._run(
            *names,
            *("-e", f"REGIONFED_CLIENT={client}", "-e", "REGIONFED_HOSTS=impostor"),
            *self._own(writable=True),
            image=COORDINATOR_IMAGE,
            words=("identity",),
        )

    def dial(self, *, identity: str, client: str, tls: bool = True) -> tuple[int, str]:
        """Start a client with the keys of the volume `identity`; its exit code and its output."""
        return self._run(
            *("--network", f"{self.stack.project}_{self.region}-fleet"),
            *("-v", f"{identity}:/identity:ro", "-v", f"{self.stack.project}_public:/public:ro"),
            *("-e", "REGIONFED_TIER=client", "-e", f"REGIONFED_REGION={self.region}"),
            *("-e", f"REGIONFED_CLIENT={client}", "-e", f"REGIONFED_TLS={int(tls)}"),
            *("-e", f"REGIONFED_FLEET={self.region}-superlink:9092"),
            *("-e", f"REGIONFED_PEER_CA=/public/{self.region}/ca.crt"),
            *("-e", "REGIONFED_START_DEADLINE=1"),
            image=CLIENT_IMAGE,
            words=("client",),
        )

    def serve_expired(self) -> tuple[int, str]:
        """Start a SuperLink whose certificate expired yesterday."""
        self._run(
            *self._own(writable=True),
            *("--entrypoint", "python"),
            image=COORDINATOR_IMAGE,
            words=("-c", EXPIRE),
        )
        return self._run(
            *self._own(writable=False),
            *("-e", "REGIONFED_TIER=region", "-e", "REGIONFED_HOSTS=impostor"),
            *("-e", "REGIONFED_START_DEADLINE=1"),
            image=COORDINATOR_IMAGE,
            words=("superlink",),
        )

    def leave(self) -> None:
        """Remove its volumes."""
        docker("volume", "rm", "-f", self.identity, *self.other)

    def _own(self, *, writable: bool) -> list[str]:
        authority, public = self.other
        mode = "" if writable else ":ro"
        return [
            *("-v", f"{self.identity}:/identity{mode}"),
            *("-v", f"{authority}:/authority", "-v", f"{public}:/public"),
        ]

    def _run(self, *options: str, image: str, words: tuple[str, ...]) -> tuple[int, str]:
        """A container to its end: its exit code, and its output."""
        name = docker("create", "--user", f"{UID}:0", *options, image, *words).strip()
        try:
            docker("start", name)
            code = int(docker("wait", name, deadline=120.0))
            return code, output_of(name)
        finally:
            docker("rm", "-f", name)


def check_refusals(stack: Stack, tally: Tally, *, region: str, client: str, other: str) -> None:
    """Cases 11 and 12 against running containers."""
    intruder = Intruder(stack, region)
    superlink = f"{region}-superlink"
    try:
        intruder.make_key(tier="client", client=client)
        refused = stack.logs(superlink).count(REFUSED_KEY)
        code, said = intruder.dial(identity=intruder.identity, client=client)
        tally.check(
            f"case 12: an unknown key that says it is {client} is refused and named",
            code == 8 and "node-key-unknown" in said,
            f"exit {code}: {said}",
        )
        tally.check(
            f"case 12: the log of {superlink} names the refused key",
            stack.logs(superlink).count(REFUSED_KEY) > refused,
            stack.logs(superlink)[-1500:],
        )
        code, said = intruder.dial(
            identity=f"{stack.project}_{region}-{other}-identity", client=client
        )
        tally.check(
            f"case 12: the key of {other} under the name of {client} is refused and named",
            code == 8 and "identity-name" in said and other in said,
            f"exit {code}: {said}",
        )
        code, said = intruder.dial(identity=intruder.identity, client=client, tls=False)
        tally.check(
            "case 11: a plain client against TLS is refused and named",
            code == 7 and "peer-is-tls" in said,
            f"exit {code}: {said}",
        )
        intruder.leave()
        intruder.make_key(tier="region")
        code, said = intruder.serve_expired()
        tally.check(
            "case 11: a server with an expired certificate does not start, and says why",
            code == 8 and "certificate-expired" in said,
            f"exit {code}: {said}",
        )
    finally:
        intruder.leave()
