# /// script
# dependencies = ["fastapi", "streameval", "uvicorn"]
# ///
"""A FastAPI service that evaluates its own recommendations.

Start it with `uvicorn fastapi_service:service`. Prometheus scrapes /metrics; the page is at
/evaluation/, the API at /evaluation/api/v1/metrics.
"""

from __future__ import annotations

import os
from typing import Literal

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, make_asgi_app
from pydantic import BaseModel

from streameval import Accumulator
from streameval.asgi import app
from streameval.prometheus import Collector

# Seconds for which a new counter shows 0: at least two scrape intervals.
FIRST_EXPOSURE = float(os.environ.get("FIRST_EXPOSURE", "60"))
METRICS = ("ndcg@10", "hit_rate@10", "ctr")
variants = {name: Accumulator(*METRICS) for name in ("control", "treatment")}

registry = CollectorRegistry()
registry.register(Collector(variants, labels="variant", first_exposure=FIRST_EXPOSURE))

service = FastAPI(title="A recommender")
service.mount("/metrics", make_asgi_app(registry))
service.mount("/evaluation", app(variants, labels="variant", source="the home page"))


class Outcome(BaseModel):
    """The items shown to a user, and the items they clicked."""

    variant: Literal["control", "treatment"]
    shown: list[str]
    clicked: list[str]


@service.post("/outcomes", status_code=204)
def count(outcome: Outcome) -> None:
    """FastAPI runs this on several threads; the Collector has made the accumulators shared."""
    variants[outcome.variant].update(outcome.shown, outcome.clicked)
