"""What a configuration would cost, told before anything runs."""

from __future__ import annotations

from pydantic import Field

from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.data.types import FederationData
from regionfed.method.rho import exchanges_needed
from regionfed.method.rivals import RIVALS
from regionfed.method.strategies import STRATEGIES, ClientWork, Needs, exchanges
from regionfed.models.describe import describe
from regionfed.run.promise import feasibility, words
from regionfed.run.result import Topology
from regionfed.run.scores import Record

_GIGABYTE = 1e9

_MEMORY: dict[str, tuple[float, float]] = {
    # Process: GB without a model, and copies of the model at its peak. From measurements of a
    # 60 M parameter T5; a training client holds weights, gradients, two Adam moments, start and
    # update, and its batch's activations come on top.
    "global ServerApp": (0.5, 8.0),
    "SuperLink": (0.13, 4.5),
    "SuperNode": (0.13, 2.8),
    "coordinator ClientApp": (0.3, 4.0),
    "coordinator daemon": (0.15, 1.0),
    "coordinator ServerApp": (0.3, 8.0),
    "client ClientApp": (0.5, 7.0),
}


class StrategyCost(Record):
    """Messages of one client in a round that personalises; other rounds cost what `none` costs."""

    strategy: str = Field(description="Name of the strategy.")
    exchanges: int = Field(description="Round trips between coordinator and client.")
    down: int = Field(description="Bytes from the coordinator to one client.")
    up: int = Field(description="Bytes from one client to the coordinator.")
    relative: float = Field(description="Both ways, relative to FedAvg (`none`).")
    configured: bool = Field(
        description="Whether the configuration asks for it, or may route to it."
    )


class RunPlan(Record):
    """The plan of a run; `regionfed plan --json` prints it."""

    run: str = Field(description="Name of the run.")
    rounds: int = Field(description="Global rounds.")
    strategy: str = Field(description="`method.strategy` of the configuration.")
    personalised: str = Field(description="In which rounds regional parts are computed, in words.")
    regions: dict[str, int] = Field(description="Clients by region.")
    cohort: str = Field(description="Clients that train per round and region, in words.")
    tasks: tuple[str, ...] = Field(description="Names of the tasks.")
    model: str = Field(description="Kind of the model.")
    parameters: int = Field(description="d: trained parameters, the vector that travels.")
    frozen: int = Field(description="Parameters that stay where they are.")
    message_bytes: int = Field(description="Bytes of the vector and its averaged buffers.")
    layout: str = Field(description="Digest of the vector's layout.")
    region_down: int = Field(description="Bytes from the server to one region, per round.")
    region_up: int = Field(description="Bytes from one region to the server, per round.")
    strategies: tuple[StrategyCost, ...] = Field(description="Cost by strategy.")
    memory: dict[str, float] = Field(description="Estimated peak GB by process, without batches.")
    privacy: str = Field(description="Promise and feasibility in words.")


def plan_run(config: FederationConfig) -> RunPlan:
    """Check a configuration against its data and model, and compute what a run would cost.

    Nothing is trained, and the model is allocated only to try it under DP-SGD
    (`privacy.example_level`). Raises DataError or ModelError as the run would.
    """
    data = open_data(config.data, config.run.seed)
    model = describe(config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    if config.privacy.example_level:
        _require_trainable(config, data)
    vector = model.vector_bytes
    message = vector + 4 * model.buffers
    regions = {name: len(data.clients(name)) for name in data.regions}
    # With server SGD the coordinator derives the mean update; else it travels beside the model.
    region_down = 2 * message + (0 if config.server.optimizer == "sgd" else vector)
    beside = _beside(config, vector)
    return RunPlan(
        run=config.run.name,
        rounds=config.run.rounds,
        strategy=config.method.strategy,
        personalised=_cadence(config),
        regions=regions,
        cohort=str(config.coordinator.cohort or "all"),
        tasks=tuple(task.name for task in data.tasks),
        model=model.kind,
        parameters=model.parameters,
        frozen=model.frozen,
        message_bytes=message,
        layout=model.layout_digest,
        region_down=region_down + beside,
        region_up=message + beside,
        strategies=_strategies(config, vector=vector, buffers=4 * model.buffers),
        memory={
            process: round(
                base + (copies * message + _frozen(process, model.frozen_bytes)) / _GIGABYTE, 2
            )
            for process, (base, copies) in _MEMORY.items()
        },
        privacy=_privacy(
            config,
            dimension=model.parameters,
            regions={name: data.clients(name) for name in data.regions},
        ),
    )


def _require_trainable(config: FederationConfig, data: FederationData) -> None:
    """Raise ModelError, layer by layer, for a model that DP-SGD cannot train."""
    from regionfed.models.build import build_model
    from regionfed.privacy.example_probe import require_trainable

    model = build_model(
        config.model, tasks=data.tasks, vocabulary=data.vocabulary, seed=config.run.seed
    )
    require_trainable(model, config.model, tasks=data.tasks, vocabulary=data.vocabulary)


def _frozen(process: str, size: int) -> int:
    """Frozen weights are only held where a model is built."""
    return size if process in ("global ServerApp", "client ClientApp") else 0


def _cadence(config: FederationConfig) -> str:
    every = config.method.personalise_every
    if config.method.regional == "none":
        return "never"
    if every == 0:
        return "after the last round"
    return "every round" if every == 1 else f"every {every} rounds and after the last"


def _strategies(config: FederationConfig, *, vector: int, buffers: int) -> tuple[StrategyCost, ...]:
    rho = config.method.rho
    search = exchanges_needed(lo=rho.low, hi=rho.high, tol=rho.tolerance, points=rho.points)
    chosen = config.method.strategy
    routed = {
        "dynamic": {"residual", "meta", "interp", "grad"},
        "dynamic-paper": {"meta", "interp", "grad"},
    }.get(chosen, {chosen})
    # FedAvg: the model twice down (to train, to evaluate), the update once up.
    fedavg = 3 * (vector + buffers)
    # A rival costs what FedAvg does, and SCAFFOLD one more vector each way while it trains.
    costs = {name: (make().needs, 0) for name, make in STRATEGIES.items()}
    if chosen in RIVALS:
        costs[chosen] = (Needs(personalises=False), _beside(config, vector))
    found = []
    for name, (needs, beside) in costs.items():
        down, up = _client_bytes(needs, vector=vector, buffers=buffers, search=search)
        down, up = down + beside, up + beside
        found.append(
            StrategyCost(
                strategy=name,
                exchanges=exchanges(needs, search_exchanges=search),
                down=down,
                up=up,
                relative=(down + up) / fedavg if fedavg else 1.0,
                configured=name in routed,
            )
        )
    return tuple(found)


def _beside(config: FederationConfig, vector: int) -> int:
    """Bytes of the control variate that SCAFFOLD sends beside the model, in either direction."""
    return vector if config.method.strategy == "scaffold" else 0


def _client_bytes(needs: Needs, *, vector: int, buffers: int, search: int) -> tuple[int, int]:
    """Bytes down and up for one client in a round that personalises."""
    message = vector + buffers
    down, up = message, message
    if needs.searches_rho:
        if needs.work is not ClientWork.NONE:
            # The work travels with the evaluation; its answer is one more vector up.
            down, up = down + message, up + vector
        down += search * (message + vector)
    elif needs.stateful:
        # theta and theta_r in one exchange, to serve the latter only where it helps.
        down += message + vector
    else:
        down += message
    return down, up


def _privacy(
    config: FederationConfig, *, dimension: int, regions: dict[str, tuple[str, ...]]
) -> str:
    """What the run's own report will say: the same judgement of the same noise."""
    section = config.privacy
    if section.mode == "off" and section.example_level:
        return words(config)
    if section.mode == "off":
        return "off: no noise, and no promise about what a trained model reveals of a client"
    if section.mode == "paper":
        return f"paper: {words(config)}"
    topology = Topology(engine="simulate", regions=regions)
    judged = feasibility(config, topology=topology, parameters=dimension)
    return (
        f"{section.mode}, budget epsilon {section.budget.epsilon:g} at delta "
        f"{section.budget.delta:g}: {judged}"
    )
