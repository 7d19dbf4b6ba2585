"""What each system means by a name: named sets of parameter values, and each system's spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from streameval.metric import Value

Choices: TypeAlias = Mapping[str, Value]


class Convention(msgspec.Struct, frozen=True):
    """One system's meaning of the catalogue's names.

    Attributes:
        system: what it is, with the version whose code was compared.
        metrics: metric -> the parameter values that give the system's numbers.
        spellings: the system's own name -> the catalogue's.
    """

    system: str
    metrics: Mapping[str, Choices]
    spellings: Mapping[str, str] = {}


CONVENTIONS: Mapping[str, Convention] = {
    "recbole": Convention(
        system="RecBole 0.2.1",
        metrics={
            "hit_rate": {},
            "mrr": {},
            "precision": {},
            "recall": {"empty": "nan"},
            "map": {"empty": "zero"},
            "ndcg": {"empty": "zero", "gain": "binary"},
        },
        spellings={"hit": "hit_rate"},
    ),
}
