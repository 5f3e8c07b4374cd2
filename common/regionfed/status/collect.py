"""One status from all sources. A dead run is told from a slow one by who is still there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regionfed.bridge.api import BridgeStatus
from regionfed.launch.running import running
from regionfed.status.model import FederationStatus, RegionStatus, RunState
from regionfed.status.sources import (
    Answer,
    FolderFacts,
    Places,
    ask_daemon,
    ask_superlink,
    read_folder,
    read_plan,
)

GLOBAL = "global"
MARGIN_SECONDS = 120.0
"""Beyond its deadlines a run may need this long to load, to average and to write."""
_FAULTS = frozenset({"skipped", "failed", "restart", "warning"})


def collect(places: Places) -> FederationStatus:
    """Ask everyone in `places`. Raises `StateError` where its folder holds no run."""
    processes = None
    if places.folder is not None and (plan := read_plan(places.folder)) is not None:
        mark, own = plan
        processes = running(mark)
        # Nobody is asked at addresses that other processes may have by now.
        if processes:
            places = own
    facts = None if places.folder is None else read_folder(places.folder)
    answers = {tier: ask_superlink(at, places.ca) for tier, at in places.controls.items()}
    daemons = {region: ask_daemon(at, places.tls) for region, at in places.daemons.items()}
    status = _global(facts, places.folder, processes, answers.get(GLOBAL))
    names = dict.fromkeys([*_regions(facts), *daemons, *(answers.keys() - {GLOBAL})])
    return replace(status, regions=tuple(_region(name, facts, daemons, answers) for name in names))


def _regions(facts: FolderFacts | None) -> list[str]:
    if facts is None:
        return []
    configured = facts.config.data.regions
    named = list(configured) if isinstance(configured, list | tuple) else []
    met = [name for each in facts.rounds for name in each.answered]
    met += [each.region for record in facts.rounds for each in record.skipped]
    return list(dict.fromkeys([*named, *met]))


def _global(
    facts: FolderFacts | None,
    folder: Path | None,
    processes: dict[str, int] | None,
    answer: Answer | None,
) -> FederationStatus:
    if facts is None:
        return FederationStatus(
            run="",
            folder="",
            state="unknown",
            reason="seen from a region; whether the run as a whole is well is known at the global site",
        )
    run = facts.config.run
    last = facts.events[-1] if facts.events else None
    done = max((each.round for each in facts.rounds), default=0)
    faults = [event for event in facts.events if event.phase in _FAULTS]
    patience = _patience(facts)
    state, reason = _state(facts, processes, answer, patience)
    error = f"round {faults[-1].round}: {faults[-1].message}" if faults else ""
    return FederationStatus(
        run=run.name,
        folder=str(folder),
        state=state,
        reason=reason,
        round=max(done, last.round if last else 0),
        rounds=run.rounds,
        phase=last.phase if last else "",
        progress_age_s=facts.age,
        patience_s=patience,
        last_error=facts.result.reason if facts.result and facts.result.reason else error,
        processes=processes,
    )


def _patience(facts: FolderFacts) -> float:
    """The longest time for which a live run may write nothing, in seconds."""
    server, coordinator = facts.config.server, facts.config.coordinator
    waits = (server.round_deadline, server.join_deadline + coordinator.join_deadline)
    return max(waits) + MARGIN_SECONDS


def _state(
    facts: FolderFacts, processes: dict[str, int] | None, answer: Answer | None, patience: float
) -> tuple[RunState, str]:
    if facts.result is not None:
        ended: dict[str, RunState] = {"ok": "done", "stopped": "stopped", "failed": "failed"}
        return ended[facts.result.status], facts.result.reason
    if processes is not None and not processes:
        return "dead", "none of its processes is left and there is no result"
    if processes is None and answer is not None and not answer.problem:
        live = [run for run in answer.runs if run.live]
        if not live and answer.runs:
            return "dead", f"the global SuperLink has no live run; the last one: {answer.runs[-1]}"
        if not live:
            return "waiting", "no run was submitted yet"
    if facts.age is None:
        return "waiting", "it has made no progress yet"
    if facts.age > patience:
        return "dead", (
            f"no progress for {facts.age:.0f} s, and its longest deadline allows {patience:.0f} s"
        )
    if answer is not None and answer.problem:
        return "running", answer.problem
    return "running", ""


def _region(
    name: str,
    facts: FolderFacts | None,
    daemons: dict[str, BridgeStatus | str],
    answers: dict[str, Answer],
) -> RegionStatus:
    status = RegionStatus(name=name)
    if facts is not None:
        status = _from_folder(status, facts)
    found = daemons.get(name)
    if isinstance(found, str):
        status = replace(status, coordinator="away", last_error=found)
    elif found is not None:
        status = _from_daemon(status, found)
    uplinks = answers.get(GLOBAL, Answer()).nodes
    for node in uplinks:
        if node.name == name:
            status = replace(status, uplink="online" if node.status == "online" else "offline")
    if name in answers and not answers[name].problem:
        clients = [node for node in answers[name].nodes if node.name.startswith(f"{name}/")]
        offline = tuple(n.name.partition("/")[2] for n in clients if n.status != "online")
        if clients:
            status = replace(
                status,
                clients=len(clients),
                clients_live=len(clients) - len(offline),
                clients_offline=offline,
            )
    return status


def _from_folder(status: RegionStatus, facts: FolderFacts) -> RegionStatus:
    name = status.name
    rounds = facts.rounds[-1:]
    skipped = [
        f"round {record.round}: skipped: {each.reason}"
        for record in facts.rounds
        for each in record.skipped
        if each.region == name
    ]
    late = {
        each.client: each.reason
        for record in rounds
        for each in record.left_out
        if each.region == name
    }
    taken = [record for record in facts.rounds if name in record.answered]
    counted = taken[-1].regions.get(name) if taken else None
    told = [event for event in facts.events if event.region == name]
    spent = facts.privacy[name].epsilon if name in facts.privacy else None
    budget = facts.config.privacy.budget.epsilon
    mode = facts.config.privacy.mode
    return replace(
        status,
        round=taken[-1].round if taken else 0,
        phase=f"{told[-1].phase} in {told[-1].round}" if told else "",
        clients_counted=counted.clients if counted else None,
        clients_late=late,
        privacy=mode,
        epsilon=spent,
        epsilon_left=max(0.0, budget - (spent or 0.0)) if mode != "off" else None,
        last_error=skipped[-1] if skipped else "",
    )


def _from_daemon(status: RegionStatus, found: BridgeStatus) -> RegionStatus:
    progress = found.progress
    number, late = progress.get("round"), progress.get("left_out")
    error = str(progress.get("error", ""))
    spent = progress.get("epsilon")
    if not error and found.run_status.startswith("ended"):
        error = f"regional run {found.run_status}"
    return replace(
        status,
        coordinator="up",
        epsilon=spent if isinstance(spent, float) else status.epsilon,
        round=number if isinstance(number, int) else status.round,
        phase=str(progress.get("phase", "")),
        progress_age_s=found.progress_age_s if found.progress_age_s >= 0 else None,
        clients_live=found.nodes_online,
        clients_late={str(k): str(v) for k, v in late.items()}
        if isinstance(late, dict)
        else status.clients_late,
        last_error=error or status.last_error,
    )
