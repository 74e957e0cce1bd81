"""What several derived tables follow from, computed once."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ktui.pipeline.lake.sizing import computed_once, forget
from ktui.pipeline.tables.listings import listed_samples
from ktui.pipeline.tables.measures import rate_pairs
from ktui.pipeline.tables.run_folds import run_folds


class Shared:
    """Results that Spark keeps from their first use until they are freed.

    Args:
        samples: samples of whole spans.
        folds: the runs, as returned by `run_folds.run_folds`.

    Attributes:
        listed: as returned by `listings.listed_samples`.
        pairs: as returned by `measures.rate_pairs`.
        folds: the runs.
    """

    def __init__(self, samples: DataFrame, folds: DataFrame) -> None:
        self.listed = computed_once(listed_samples(samples))
        self.pairs = computed_once(rate_pairs(self.listed))
        self.folds = computed_once(folds)

    @classmethod
    def of_events(cls, samples: DataFrame, run_events: DataFrame) -> Shared:
        """Return the results for all runs with events among `run_events`."""
        return cls(samples, run_folds(run_events))

    def unpersist(self) -> None:
        """Free what is kept."""
        for kept in (self.pairs, self.listed, self.folds):
            forget(kept)
