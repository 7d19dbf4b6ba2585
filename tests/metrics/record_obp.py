"""Records what Open Bandit Pipeline 0.5.5 estimates from random tables.

    pip install obp==0.5.5        # in an environment of Python 3.9, apart from this project
    python tests/metrics/record_obp.py

Writes obp.json beside this file: for each table, the events and the estimate of each metric.
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np

LISTS, TABLES, CLIP = 10, 24, 2.0


def main() -> None:
    draw = random.Random(20260301)
    tables = [_single(draw) for _ in range(TABLES)] + [_slates(draw) for _ in range(TABLES)]
    Path(__file__).with_name("obp.json").write_text(
        "[\n" + ",\n".join(map(json.dumps, tables)) + "\n]\n"
    )


def _chances(draw: random.Random, size: int) -> list[float]:
    return [round(draw.uniform(0.02, 0.98), 3) for _ in range(size)]


def _events(draw: random.Random, length: int) -> list[dict[str, list[float]]]:
    return [
        {
            "reward": [draw.choice((0.0, 0.0, 1.0, 2.5)) for _ in range(length)],
            **{
                name: _chances(draw, length)
                for name in ("propensity", "target", "predicted", "expected")
            },
        }
        for _ in range(LISTS)
    ]


def _actions(events: list[dict[str, list[float]]]) -> tuple[Any, Any]:
    """The policy's chance, and the model's reward, of the item shown and of all others."""
    target, predicted, expected = (
        np.array([event[name] for event in events]) for name in ("target", "predicted", "expected")
    )
    others = (expected - target * predicted) / (1 - target)
    policy = np.stack([target, 1 - target], axis=1)
    return policy, np.stack([predicted, others], axis=1)


def _single(draw: random.Random) -> dict[str, Any]:
    ope, events = import_module("obp.ope"), _events(draw, 1)
    policy, model = _actions(events)
    given = {
        "reward": np.array([event["reward"][0] for event in events]),
        "action": np.zeros(LISTS, int),
        "pscore": np.array([event["propensity"][0] for event in events]),
        "action_dist": policy,
        "position": np.zeros(LISTS, int),
    }
    both = given | {"estimated_rewards_by_reg_model": model}
    direct = {name: both[name] for name in ("action_dist", "estimated_rewards_by_reg_model")}
    estimates = {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**given),
        f"ips(clip={CLIP:g})": ope.InverseProbabilityWeighting(lambda_=CLIP).estimate_policy_value(
            **given
        ),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given),
        "dr": ope.DoublyRobust().estimate_policy_value(**both),
        f"dr(clip={CLIP:g})": ope.DoublyRobust(lambda_=CLIP).estimate_policy_value(**both),
        "dr(direct=true)": ope.DirectMethod().estimate_policy_value(
            position=given["position"], **direct
        ),
    }
    return {"events": events, "values": {name: float(value) for name, value in estimates.items()}}


def _slates(draw: random.Random) -> dict[str, Any]:
    length = draw.choice((2, 3, 4))
    ope, events = import_module("obp.ope"), _events(draw, length)
    given = {
        "slate_id": np.repeat(np.arange(LISTS), length),
        "reward": np.array([event["reward"] for event in events]).ravel(),
        "position": np.tile(np.arange(length), LISTS),
    }

    def columns(suffix: str, change: Any) -> dict[str, Any]:
        logged, wanted = (
            np.concatenate([change(event[name]) for event in events])
            for name in ("propensity", "target")
        )
        return {f"pscore{suffix}": logged, f"evaluation_policy_pscore{suffix}": wanted}

    whole = columns("", lambda chances: [float(np.prod(chances))] * length)
    cascade = columns("_cascade", lambda chances: list(accumulate(chances, mul)))
    alone = columns("_item_position", list)
    policy, model = _actions(events)
    q_hat, chosen = (np.moveaxis(chances, 1, 2).ravel() for chances in (model, policy))
    estimates = {
        "ips": ope.SlateIndependentIPS(len_list=length).estimate_policy_value(**given, **alone),
        "ips(slots=cascade)": ope.SlateRewardInteractionIPS(len_list=length).estimate_policy_value(
            **given, **cascade
        ),
        "ips(slots=list)": ope.SlateStandardIPS(len_list=length).estimate_policy_value(
            **given, **whole
        ),
        "snips(slots=list)": ope.SelfNormalizedSlateStandardIPS(
            len_list=length
        ).estimate_policy_value(**given, **whole),
        "dr(slots=cascade)": ope.SlateCascadeDoublyRobust(
            len_list=length, n_unique_action=2
        ).estimate_policy_value(
            **given,
            **cascade,
            action=np.zeros(LISTS * length, int),
            q_hat=q_hat,
            evaluation_policy_action_dist=chosen,
        ),
    }
    return {"events": events, "values": {name: float(value) for name, value in estimates.items()}}


if __name__ == "__main__":
    main()
