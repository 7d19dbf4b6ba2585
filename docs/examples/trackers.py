# /// script
# dependencies = ["jinja2", "mlflow", "pandas", "pyarrow", "streameval", "wandb"]
# ///
"""Keeps the numbers of an evaluation in MLflow and in Weights & Biases.

Run it: python trackers.py (needs mlflow, wandb and pandas; no account).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import mlflow
import wandb

from streameval import Evaluation, evaluate


def numbers(found: Evaluation, metrics: Sequence[str]) -> dict[str, float]:
    """Name -> value of each metric that has one; MLflow allows no `@`, brackets and commas."""
    readings = {re.sub(r"[^\w.-]+", "_", text).strip("_"): found[text] for text in metrics}
    return {name: reading.value for name, reading in readings.items() if reading.defined}


def log_to_mlflow(found: Evaluation, metrics: Sequence[str], step: int = 0) -> str:
    """Add the numbers to a run, and the report as its artifact; returns the id of the run."""
    with mlflow.start_run() as run:
        mlflow.log_metrics(numbers(found, metrics), step=step)
        mlflow.log_text(found.to_html("Evaluation"), "evaluation.html")
        return str(run.info.run_id)


def log_to_wandb(run: Any, found: Evaluation, metrics: Sequence[str], step: int = 0) -> None:
    """Add the numbers, and a table of values with their intervals, to `wandb.init()`."""
    table = wandb.Table(dataframe=found.to_frame("pandas"))
    run.log({**numbers(found, metrics), "evaluation": table}, step=step, commit=True)


def main() -> None:
    """One evaluation into both; W&B keeps it in a folder until `wandb sync`."""
    metrics = ["ndcg@2", "mrr"]
    found = evaluate([["tea", "milk"], ["jam", "tea"]], [["milk"], ["jam"]], metrics)
    sys.stdout.write(f"mlflow {log_to_mlflow(found, metrics)}\n")
    with wandb.init(project="recommender", mode="offline") as run:
        log_to_wandb(run, found, metrics)
        sys.stdout.write(f"wandb {run.summary['ndcg_2']}\n")


if __name__ == "__main__":
    main()
