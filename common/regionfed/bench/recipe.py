"""A benchmark's recipe file: which systems, on what, how often, in which sizes.

A recipe may begin with `extends = "other.toml"`: its tables are then laid over the other's.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from regionfed.bench.cell import Job
from regionfed.bench.scoring import Split
from regionfed.bench.systems import SYSTEMS
from regionfed.config.base import Section
from regionfed.config.checks import check
from regionfed.config.explain import explain
from regionfed.config.federation import FederationConfig
from regionfed.errors import ConfigError

SizeName = Literal["smoke", "full"]

NO_NOISE: Mapping[str, Any] = {"privacy": {"mode": "off"}}
"""Systems are compared without noise unless a recipe asks for it."""


class Layer(Section):
    """Values laid over those of the layers before: the recipe, then its size, then its setting."""

    federation: dict[str, Any] = Field(
        default={}, description="Keys of a federation file, as tables."
    )
    options: dict[str, dict[str, Any]] = Field(
        default={}, description="A system's own parameters, by its name."
    )


class Setting(Layer):
    """`[[setting]]`: one variation under which the systems are compared."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=+-]{0,63}$")
    systems: list[str] | None = Field(default=None, description="Only these; absent: all.")


class Sweep(Section):
    """`[sweep]`: one setting per value of one key."""

    key: str = Field(description="'federation.SECTION.KEY' or 'options.SYSTEM.KEY'.")
    values: list[float | int | str | bool] = Field(min_length=1)
    label: str = Field(default="", description="Name of the axis; absent: the key.")

    @model_validator(mode="after")
    def _key_has_a_place(self) -> Self:
        first, *rest = self.key.split(".")
        if first not in ("federation", "options") or len(rest) < 2:
            raise ValueError(
                f"key = {self.key!r} is not of the form 'federation.SECTION.KEY' or "
                "'options.SYSTEM.KEY'"
            )
        return self


class Size(Layer):
    """`[size.smoke]` and `[size.full]`: how much of it."""

    systems: list[str] | None = Field(default=None, description="Absent: the recipe's.")
    seeds: list[int] | None = Field(default=None, min_length=1, description="Absent: the recipe's.")
    curve_every: int | None = Field(default=None, ge=0, description="Absent: the recipe's.")
    values: list[float | int | str | bool] | None = Field(
        default=None, min_length=1, description="Values of the sweep; absent: the recipe's."
    )


class Bench(Section):
    """`[bench]`: what is compared."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    title: str = Field(default="", description="Heading of the report.")
    about: str = Field(default="", description="A paragraph under it.")
    systems: list[str] = Field(min_length=1)
    seeds: list[int] = Field(default=[1, 2, 3], min_length=1)
    split: Split = Field(default="test", description="'validation' to choose parameters.")
    curve_every: int = Field(default=0, ge=0, description="Score after every k-th round.")
    published: Literal["none", "esci", "reviews", "handwriting"] = Field(
        default="none", description="Published figures to set beside ours."
    )
    rivals: list[str] = Field(
        default=[], description="Systems that the best RegionFed strategy is compared with."
    )


class Recipe(Layer):
    """The whole file."""

    bench: Bench
    setting: list[Setting] = Field(default=[])
    sweep: Sweep | None = None
    size: dict[SizeName, Size]
    references: dict[str, float] = Field(
        default={},
        description="Scores in percent that a system must exceed to have learnt, by 'TASK: what'; "
        "without the name of a task it is of the overall score.",
    )

    @model_validator(mode="after")
    def _systems_exist(self) -> Self:
        named = [*self.bench.systems, *self.bench.rivals, *self.options]
        layers: list[Setting | Size] = [*self.setting, *self.size.values()]
        for layer in layers:
            named += [*(layer.systems or []), *layer.options]
        unknown = sorted(set(named) - set(SYSTEMS))
        if unknown:
            raise ValueError(f"{unknown} are no systems; allowed are {list(SYSTEMS)}")
        if self.setting and self.sweep is not None:
            raise ValueError("give [[setting]] tables or a [sweep], not both")
        return self


def read_recipe(path: Path) -> Recipe:
    """Read a recipe and those that it extends. Raises `ConfigError` naming file, key and fix."""
    try:
        return Recipe.model_validate(_tables(path, below=()))
    except ValidationError as error:
        raise ConfigError(_plain(error, origin=str(path))) from None


def _tables(path: Path, *, below: tuple[Path, ...]) -> dict[str, Any]:
    """The file's tables over those of the recipe that it `extends`."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no recipe {path}; recipes/ has some, for example recipes/paper_esci.toml"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    parent = raw.pop("extends", None)
    if parent is None:
        return raw
    if not isinstance(parent, str):
        raise ConfigError(f"{path}: extends = {parent!r} is not the path of a recipe")
    place = (path.parent / parent).resolve()
    if place in below:
        raise ConfigError(f"{path}: extends = {parent!r} leads back to a recipe it comes from")
    return _merged(_tables(place, below=(*below, path.resolve())), raw)


def jobs_of(recipe: Recipe, size: SizeName, *, origin: str) -> list[Job]:
    """All cells of a recipe in one size: setting by setting, seed by seed, system by system.

    Raises `ConfigError` for a size that the recipe lacks, or values that no system or federation
    takes; `origin` names the recipe in it.
    """
    if size not in recipe.size:
        raise ConfigError(f"{origin} has no [size.{size}]; it has {sorted(recipe.size)}")
    chosen, bench = recipe.size[size], recipe.bench
    curve = bench.curve_every if chosen.curve_every is None else chosen.curve_every
    jobs: list[Job] = []
    for setting in settings_of(recipe, size):
        names = setting.systems or chosen.systems or bench.systems
        # Systems whose inputs carry the region last, so that others share what is in memory.
        ordered = sorted(
            (name for name in SYSTEMS if name in names), key=lambda n: SYSTEMS[n].needs_marks
        )
        for seed in chosen.seeds or bench.seeds:
            tables = _merged(NO_NOISE, recipe.federation, chosen.federation, setting.federation)
            tables.setdefault("run", {})["seed"] = seed
            config = _config(tables, origin=f"{origin}, setting {setting.name}")
            for name in ordered:
                options = _merged(
                    recipe.options.get(name, {}),
                    chosen.options.get(name, {}),
                    setting.options.get(name, {}),
                )
                _check_options(name, options, origin=f"{origin}, setting {setting.name}")
                jobs.append(
                    _job(
                        system=name,
                        setting=setting.name,
                        seed=seed,
                        split=bench.split,
                        curve_every=curve,
                        options=options,
                        config=config,
                    )
                )
    return jobs


def settings_of(recipe: Recipe, size: SizeName) -> list[Setting]:
    """The variations: those that are listed, those of the sweep, or a single one."""
    if recipe.sweep is None:
        return recipe.setting or [Setting(name="main")]
    values = recipe.size[size].values or recipe.sweep.values
    return list(_swept(recipe.sweep, values))


def _swept(sweep: Sweep, values: list[float | int | str | bool]) -> Iterator[Setting]:
    kind, *place = sweep.key.split(".")
    for value in values:
        tables: dict[str, Any] = {}
        inner = tables
        for part in place[:-1]:
            inner = inner.setdefault(part, {})
        inner[place[-1]] = value
        yield Setting.model_validate({"name": f"{place[-1]}={value}", kind: tables})


def _merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Tables laid over each other, the later ones on top."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), dict):
                result[key] = _merged(result[key], value)
            else:
                result[key] = copy.deepcopy(value)
    return result


def _config(tables: Mapping[str, Any], *, origin: str) -> FederationConfig:
    try:
        config = FederationConfig.model_validate_json(json.dumps(tables), strict=True)
    except ValidationError as error:
        raise ConfigError(explain(error, origin=lambda key: f"{origin}, [federation]")) from None
    problems = check(config)
    if problems:
        raise ConfigError(
            "\n".join(f"{origin}, [federation] {p.key}: {p.message}" for p in problems)
        )
    return config


def _check_options(name: str, options: Mapping[str, Any], *, origin: str) -> None:
    try:
        SYSTEMS[name].options_type.model_validate(options)
    except ValidationError as error:
        raise ConfigError(_plain(error, origin=f"{origin}, [options.{name}]")) from None


def _plain(error: ValidationError, *, origin: str) -> str:
    """One line per wrong key of a recipe."""
    lines = []
    for item in error.errors(include_url=False):
        key = ".".join(str(part) for part in item["loc"])
        given = item["input"]
        shown = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) else ""
        lines.append(f"{origin}: {key + ': ' if key else ''}{item['msg']}{shown}")
    return "\n".join(lines)


def _job(**fields: Any) -> Job:
    """A job with its key. Where it runs (threads, device) does not change what it is."""
    draft = Job(key="", **fields)
    content = draft.model_dump(mode="json", exclude={"key"})
    for where in ("device", "threads", "memory_fraction"):
        content["config"]["training"].pop(where, None)
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
    key = f"{draft.setting}--{draft.system}--seed{draft.seed}--{digest}"
    return draft.model_copy(update={"key": key})
