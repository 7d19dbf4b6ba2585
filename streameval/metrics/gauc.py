"""Area under the ROC curve of each list, averaged."""

import math
from typing import Literal

from streameval.catalogue.metric import metric
from streameval.statistics.scores import RankSums


@metric(
    bounds=(0, 1),
    per="slice",
    source="Zhou et al., Deep interest network, KDD 2018; RecBole 0.2.1 `gauc`",
)
def gauc(ranksums: RankSums, *, weight: Literal["positives", "lists"] = "positives") -> float:
    """AUC of each list, averaged with the number of its positive items as weight.

    Lists without a positive or without a negative item are left out; ties count one half; with
    weight=lists every list has the same weight. Undefined without a list that has both.

        gauc = sum over lists of (positives * auc of the list) / sum over lists of positives

    Example:
        >>> from streameval import Accumulator
        >>> accumulator = Accumulator("gauc")
        >>> accumulator.update(["a", "b", "c"], ["a"], scores=[0.6, 0.9, 0.1])
        >>> accumulator.read("gauc").value
        0.5
    """
    positives, negatives = ranksums.positives, ranksums.negatives
    twice, lists = ranksums.twice, ranksums.counts
    both = (positives > 0) & (negatives > 0)
    weighs = positives if weight == "positives" else positives**0
    parts = twice[both] / (2 * negatives[both]) * (weighs[both] / positives[both])
    total = int((weighs * lists)[both].sum())
    return math.fsum(parts.tolist()) / total if total else math.nan
