# /// script
# dependencies = ["streameval", "transformers[torch]"]
# ///
"""`compute_metrics` of a Hugging Face Trainer: next-item recommendation, batch by batch.

    arguments = TrainingArguments(..., batch_eval_metrics=True)
    Trainer(..., args=arguments, compute_metrics=Ranking("ndcg@10"))

With batch_eval_metrics=True the Trainer calls it for each batch and requests the result with the
last one, so the scores of all users are never in memory at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval import Accumulator

IGNORED = -100
"""A label that the loss of Hugging Face models ignores."""


def on_cpu(values: Any) -> Any:
    """A batch as a NumPy array; the Trainer gives tensors on its device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


class Ranking:
    """Counts scores (B, items) and next items (B,).

    Args:
        metrics: for example "ndcg@10".
        k: number of items with the highest scores to rank.
    """

    def __init__(self, *metrics: str, k: int = 10) -> None:
        self.accumulator, self.k = Accumulator(*metrics), k

    def __call__(self, prediction: Any, *, compute_result: bool = True) -> dict[str, float]:
        """Count a batch; returns the values after the last one."""
        scores, labels = on_cpu(prediction.predictions), on_cpu(prediction.label_ids)
        known = labels != IGNORED
        best = np.argsort(-scores[known], axis=1, kind="stable")[:, : self.k]
        self.accumulator.update_many(best, labels[known])
        if not compute_result:
            return {}
        found = {name: reading.value for name, reading in self.accumulator.compute().items()}
        self.accumulator.reset()
        return found
