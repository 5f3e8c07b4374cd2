"""Whether the rows of a client can be read, and the model be built for their tasks."""

from __future__ import annotations

from dataclasses import dataclass

from regionfed.checks.result import CheckResult, Code, failed, passed
from regionfed.config.federation import FederationConfig
from regionfed.data.open import open_data
from regionfed.errors import DataError, ModelError
from regionfed.models.describe import ModelSummary, describe


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """The outcome of looking at the model, with its sizes where it can be built."""

    result: CheckResult
    summary: ModelSummary | None = None


def check_client_rows(config: FederationConfig, *, region: str, client: str) -> CheckResult:
    """Whether this client's rows are there: files, columns, labels and its own partition."""
    what = f"data of {region}/{client}"
    try:
        rows = open_data(config.data, config.run.seed).load(region, client)
    except DataError as error:
        return _data_missing(what, error)
    if not rows.train:
        return failed(
            what,
            Code.DATA_MISSING,
            f"client {client} of region {region} has no training rows",
            fix="check the region and client columns of the data, or the partition's min_rows",
        )
    return passed(
        what,
        f"{len(rows.train)} training, {len(rows.validation)} validation, {len(rows.test)} test rows",
    )


def check_region_name(config: FederationConfig, *, region: str) -> CheckResult:
    """Whether the data know this region."""
    what = f"region {region}"
    try:
        regions = open_data(config.data, config.run.seed).regions
    except DataError as error:
        return _data_missing(what, error)
    if region not in regions:
        return failed(
            what,
            Code.DATA_MISSING,
            f"{region!r} is not one of the {len(regions)} regions of the data: "
            f"{', '.join(regions[:8])}",
            fix="correct the region's name, or data.regions",
        )
    return passed(what, f"one of {len(regions)} regions")


def check_model(config: FederationConfig) -> ModelFinding:
    """Whether the configured model can be built for the tasks of the data; allocates nothing."""
    what = "model"
    try:
        data = open_data(config.data, config.run.seed)
        summary = describe(config.model, tasks=data.tasks, vocabulary=data.vocabulary)
    except DataError as error:
        return ModelFinding(_data_missing(what, error))
    except ModelError as error:
        return ModelFinding(
            failed(what, Code.MODEL_INVALID, str(error), fix="correct the section [model]")
        )
    text = f"{summary.kind} with {summary.parameters:,} parameters in the vector"
    return ModelFinding(passed(what, text), summary)


def _data_missing(what: str, error: DataError) -> CheckResult:
    return failed(
        what, Code.DATA_MISSING, str(error), fix="correct the section [data], or the file"
    )
