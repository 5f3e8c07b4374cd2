"""The sections below `[data]`, one for each source and one for placing rows."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from regionfed.config.base import Section
from regionfed.tasks.spec import TaskKind


class CustomTask(Section):
    """`[data.custom.NAME]`: a task of your own, or other labels for a standard one."""

    kind: TaskKind = Field(description="Shape of the answer.")
    labels: list[str] = Field(
        default=[], description="Label names in a fixed order; leave empty for kind 'text'."
    )
    prefix: str = Field(default="", description="Put before the input of a text-to-text model.")

    @model_validator(mode="after")
    def _labels_fit_kind(self) -> Self:
        if self.kind is TaskKind.TEXT and self.labels:
            raise ValueError("a task of kind 'text' has no labels; remove `labels`")
        if self.kind is not TaskKind.TEXT and len(set(self.labels)) < 2:
            raise ValueError(f"a task of kind '{self.kind}' needs at least two labels in `labels`")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("`labels` names a label twice")
        return self


class PartitionConfig(Section):
    """`[data.partition]`: how rows come to regions and clients (benchmark section 3)."""

    assignment: Literal["semantic", "random", "adversarial"] = Field(
        default="semantic",
        description="Which clients share a region: those with related data, shuffled ones, or "
        "those with the least related data.",
    )
    home_probability: float = Field(
        default=0.7,
        ge=0,
        le=1,
        description="Chance that a row goes to the region that owns its category; otherwise it "
        "goes to one of the other regions.",
    )
    alpha: float = Field(
        default=0.3,
        gt=0,
        le=1e6,
        description="Concentration of the Dirichlet draw over the clients of a region, by label; "
        "smaller is more uneven.",
    )
    min_rows: int = Field(
        default=20,
        ge=0,
        description="Fewest training rows of a client; the draw is repeated until all have them.",
    )
    max_draws: int = Field(
        default=500, ge=1, le=100_000, description="Draws before giving up on `min_rows`."
    )


class BuiltinConfig(Section):
    """`[data.builtin]`: the generator of shop queries (benchmark section 1).

    Each task has queries of its own; sizes are per client and task.
    """

    train_queries: int = Field(
        default=200, ge=1, description="Training queries per client and task."
    )
    validation_queries: int = Field(
        default=25, ge=0, description="Validation queries per client and task."
    )
    test_queries: int = Field(default=50, ge=0, description="Test queries per client and task.")
    categories: int = Field(default=24, ge=1, le=24, description="Product categories.")
    products_per_category: int = Field(
        default=3, ge=1, le=200, description="Product words of a category."
    )
    brands: int = Field(default=12, ge=2, le=1000, description="Brand names.")
    misspellings: int = Field(
        default=40, ge=1, le=5000, description="Misspelt forms that occur in spelling rows."
    )
    max_tokens: int = Field(default=5, ge=4, le=20, description="Longest query, in words.")
    spelling_noise: float = Field(
        default=0.9,
        ge=0,
        le=1,
        description="Share of spelling rows with a misspelt word; the others are already right.",
    )
    ambiguous_words: int = Field(
        default=8,
        ge=0,
        le=64,
        description="Words per task whose meaning may depend on the region; rounded up to a "
        "multiple of the number of meanings (8 intents, 5 entity types, 8 spellings).",
    )
    ambiguity: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="Share of the deciding words (of intent, misspelt, or an entity) that are "
        "ambiguous ones.",
    )
    conflict: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of the ambiguous words whose meaning really differs between regions.",
    )
    conflicting_regions: list[str] | None = Field(
        default=None,
        description="Regions that give ambiguous words a meaning of their own; the others share "
        "one. Absent: every region has its own.",
    )
    iid: bool = Field(
        default=False,
        description="Every client draws from the same distribution and no word has a second "
        "meaning.",
    )
    user_vocabulary: int = Field(
        default=0, ge=0, le=32, description="Words whose meaning is particular to each client."
    )
    user_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of the deciding words that are such words, if there are any.",
    )


class QueriesConfig(Section):
    """`[data.queries]`: real shop queries under `root` (benchmark section 3)."""

    entities: Literal["labels5", "labels5_alt"] = Field(
        default="labels5", description="Column of the NER files with the five entity types."
    )
    spell_train_rows: int = Field(
        default=8000, ge=1, description="Spelling rows for training, all clients together."
    )
    clean_share: float = Field(
        default=0.15,
        ge=0,
        le=0.9,
        description="Share of those rows that are right already and must stay as they are.",
    )
    spell_test_share: float = Field(
        default=0.3, gt=0, lt=1, description="Share of the Home Depot pairs held out for the test."
    )
    max_rows_per_task: int | None = Field(
        default=None,
        ge=1,
        description="Use at most so many training rows per task, for a quick run. Absent: all.",
    )


class ReviewsConfig(Section):
    """`[data.reviews]`: product reviews with a star rating under `root`."""

    corpus: Literal["clothing", "amazon"] = Field(
        default="clothing",
        description="Women's clothing reviews (5 departments, 5 stars), or Amazon reviews of four "
        "domains (no review has 3 stars).",
    )
    max_words: int = Field(default=64, ge=4, le=1000, description="Words kept of a review.")
    max_rows: int | None = Field(default=None, ge=1, description="Use at most so many reviews.")


class HandwritingConfig(Section):
    """`[data.handwriting]`: Char74K characters under `root`, one writer per client."""

    unseen_writers: int = Field(
        default=0,
        ge=0,
        le=50,
        description="Writers kept out of training; their characters are dealt over the clients as "
        "test rows. 0: each client is tested on held-out characters of its own writer.",
    )
    validation_share: float = Field(
        default=0.1, ge=0, lt=0.5, description="Share of a writer's characters for validation."
    )
    test_share: float = Field(
        default=0.2, ge=0, lt=0.5, description="Share of a writer's characters for the test."
    )


class HubConfig(Section):
    """`[data.hub]`: a dataset loaded through the `datasets` library."""

    dataset: Literal["esci", "amazon_reviews", "femnist"] = Field(
        default="esci", description="Which loader turns the columns into rows."
    )
    name: str | None = Field(
        default=None,
        description="Hub name or local folder. Absent: the loader's usual hub name.",
    )
    revision: str | None = Field(default=None, description="Commit or tag of the hub dataset.")
    categories: list[str] = Field(
        default=["All_Beauty", "Books", "Electronics", "Home_and_Kitchen", "Toys_and_Games"],
        description="Product categories of amazon_reviews, one region each by the category rule.",
    )
    locales: list[str] = Field(
        default=["us", "es", "jp"],
        description="Locales of esci, one region each by the category rule.",
    )
    max_rows: int = Field(
        default=20_000,
        ge=1,
        description="Read at most so many rows (per category or locale, if any).",
    )


class FilesConfig(Section):
    """`[data.files]`: your own JSONL, CSV or Parquet."""

    path: str | None = Field(
        default=None,
        description="A file, or a pattern with {region} and {client} for one file per client.",
    )
    format: Literal["auto", "jsonl", "csv", "parquet"] = Field(
        default="auto", description="'auto' goes by the file's ending."
    )
    task: str | None = Field(
        default=None, description="Task of every row, when there is no task column."
    )
    task_column: str | None = Field(default=None, description="Column with the row's task.")
    text_column: str = Field(default="text", description="Column with the input.")
    target_column: str = Field(default="target", description="Column with the right answer.")
    region_column: str | None = Field(default=None, description="Column with the region's name.")
    client_column: str | None = Field(default=None, description="Column with the client's name.")
    category_column: str | None = Field(
        default=None, description="Column by which rows are placed when no region column is given."
    )
    split_column: str | None = Field(
        default=None, description="Column with 'train', 'validation' or 'test'."
    )
    vocabulary: str | None = Field(
        default=None,
        description="A text file of public words, from which a word vocabulary may be built; rows "
        "of clients are never read for that.",
    )
    validation_share: float = Field(
        default=0.1, ge=0, lt=1, description="Share of rows for validation without a split column."
    )
    test_share: float = Field(
        default=0.2, ge=0, lt=1, description="Share of rows for the test without a split column."
    )

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if self.task is not None and self.task_column is not None:
            raise ValueError("give `task` (one task for all rows) or `task_column`, not both")
        if self.validation_share + self.test_share >= 1:
            raise ValueError("`validation_share` + `test_share` must leave rows to train on (< 1)")
        if self.client_column is not None and self.region_column is None:
            raise ValueError("`client_column` needs `region_column` too")
        return self
