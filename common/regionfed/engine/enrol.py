"""Keys and signed configurations for a run on one machine, made in its folder.

Here the operator, the coordinators and the clients are one person's processes; what a deployment
keeps apart by host is kept apart by folder.
"""

from __future__ import annotations

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.identity.secure_files import DIRECTORY, OPERATOR, enrol_clients, sign_channels
from regionfed.models.describe import describe
from regionfed.privacy.budget import LOOKS_AHEAD
from regionfed.privacy.quantities import Channel
from regionfed.privacy.terms import RegionTerms, asked_at_the_end
from regionfed.run.files import write_atomically
from regionfed.run.folder import RunFolder
from regionfed.secagg import OperatorKey


def enrol(config: FederationConfig, folder: RunFolder) -> None:
    """Enrol every client and sign each region's terms; does nothing without secure aggregation.

    Keys that exist are kept, so a resumed run goes on with them. Raises SecureAggregationError or
    ConfigError for terms that cannot work.
    """
    if not config.privacy.secure_aggregation.enabled:
        return
    data = open_data(config.data, config.run.seed)
    model = describe(config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    place = folder.path / "operator"
    place.mkdir(mode=0o700, exist_ok=True)
    key = place / "operator.key"
    if not key.exists():
        OperatorKey.create().save(key)
    operator = OperatorKey.load(key)
    for region in data.regions:
        names = data.clients(region)
        directory = enrol_clients({name: folder.client(region, name) for name in names})
        home = folder.region(region)
        write_atomically(home / DIRECTORY, directory.to_json().encode())
        write_atomically(home / OPERATOR, (place / "operator.key.pub").read_bytes())
        terms = RegionTerms(
            config=config,
            dimension=model.parameters,
            buffers=model.buffers,
            clients=len(names),
            tasks=data.tasks,
        )
        sign_channels(
            home, terms, directory=directory, operator=operator, channels=signed_channels(terms)
        )


def signed_channels(terms: RegionTerms) -> tuple[Channel, ...]:
    """The channels that a run of these terms may use."""
    if not terms.mode.per_client:
        return (Channel.TRAIN,)
    works = terms.config.method.strategy in LOOKS_AHEAD
    training = (Channel.FIRST, Channel.TRAIN) if terms.asks_once else (Channel.TRAIN,)
    return (*training, *asked_at_the_end(terms, works=works))
