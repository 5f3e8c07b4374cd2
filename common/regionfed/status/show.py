"""A status for a person."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from regionfed.status.model import BAD, FederationStatus, RegionStatus
from regionfed.units import duration


def render(status: FederationStatus) -> RenderableType:
    """One line for the run, one row per region, the processes where they are this machine's."""
    parts: list[RenderableType] = [_headline(status)]
    if status.last_error:
        parts.append(Text(f"last error: {status.last_error}", style="yellow"))
    if status.regions:
        parts.append(_regions(status.regions))
    if status.processes is not None:
        names = ", ".join(f"{name} ({pid})" for name, pid in sorted(status.processes.items()))
        parts.append(Text(f"processes: {names or 'none'}", style="dim"))
    return Group(*parts)


def _headline(status: FederationStatus) -> Text:
    if status.state == "unknown":
        return Text(status.reason, style="dim")
    style = "bold red" if status.state in BAD else "bold"
    text = Text.assemble((status.state.upper() if status.state in BAD else status.state, style))
    if status.run:
        text.append(f"  {status.run}: round {status.round} of {status.rounds}")
    if status.phase:
        text.append(f", {status.phase}")
    if status.progress_age_s is not None:
        text.append(f", last progress {duration(status.progress_age_s)} ago")
    if status.reason:
        text.append(f"\n{status.reason}")
    return text


def _regions(regions: tuple[RegionStatus, ...]) -> Table:
    table = Table(
        "region", "coordinator", "round", "phase", "last report", "clients", "late", "epsilon left",
        "last error",
    )  # fmt: skip
    for each in regions:
        table.add_row(
            each.name,
            "/".join(part for part in (each.coordinator, each.uplink) if part),
            str(each.round),
            each.phase,
            "" if each.progress_age_s is None else f"{duration(each.progress_age_s)} ago",
            _clients(each),
            ", ".join(each.clients_late),
            _epsilon(each),
            each.last_error,
        )
    return table


def _clients(region: RegionStatus) -> str:
    if region.clients_live is None:
        return "" if region.clients_counted is None else f"{region.clients_counted} counted"
    total = f" of {region.clients}" if region.clients else ""
    gone = f" (offline: {', '.join(region.clients_offline)})" if region.clients_offline else ""
    return f"{region.clients_live}{total} live{gone}"


def _epsilon(region: RegionStatus) -> str:
    if region.epsilon_left is None:
        return f"privacy {region.privacy}" if region.privacy else ""
    spent = "" if region.epsilon is None else f" ({region.epsilon:.2f} spent)"
    return f"{region.epsilon_left:.2f}{spent}"
