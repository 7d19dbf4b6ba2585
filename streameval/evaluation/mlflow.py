"""An evaluator of MLflow: `mlflow.models.evaluate(..., evaluators="streameval")` for rankings.

MLflow finds it by the entry point of this package; nothing has to be imported. Needs the extra
`tables`, and MLflow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from streameval.evaluation.evaluation import evaluate
from streameval.events.errors import UsageError


class RankingEvaluator:
    """A `ModelEvaluator` of MLflow, which imports MLflow only when MLflow calls it.

    It evaluates lists of items: a model's predictions, or a column of the data, against targets.

    `model_type="ranker"`, or `"retriever"` if `evaluator_config` has metrics. Targets and
    predictions are lists of item ids, one for each row. `evaluator_config` has the `metrics`, and
    other arguments of `streameval.evaluate`. The run gets each defined value under a name that
    MLflow allows (`ndcg@10` as `ndcg_10`), and all readings with their evidence and intervals as
    `streameval.json`.
    """

    @classmethod
    def can_evaluate(
        cls, *, model_type: str | None, evaluator_config: Mapping[str, Any] | None, **_: Any
    ) -> bool:
        """See MLflow; MLflow asks all evaluators if its caller names none."""
        has_metrics = bool((evaluator_config or {}).get("metrics"))
        return model_type == "ranker" or (model_type == "retriever" and has_metrics)

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None,
        model: Any = None,
        predictions: str | None = None,
        **_: Any,
    ) -> Any:
        """See MLflow.

        Raises:
            UsageError: there are no metrics, no targets or no predictions.
        """
        options = dict(evaluator_config or {})
        metrics = options.pop("metrics", ())
        if not metrics:
            raise UsageError('name metrics: evaluator_config={"metrics": ["ndcg@10", "mrr"]}.')
        recommendations = dataset.predictions_data
        if model is not None:
            recommendations = model.predict(dataset.features_data)
            if hasattr(recommendations, "columns"):
                recommendations = recommendations[
                    recommendations.columns[0] if predictions is None else predictions
                ]
        if recommendations is None or dataset.labels_data is None:
            raise UsageError(
                "name the columns of lists and of chosen items: predictions=, targets=."
            )
        result = evaluate(
            [*map(list, recommendations)], [*map(list, dataset.labels_data)], metrics, **options
        )
        defined = {name: reading for name, reading in result.items() if reading.defined}
        values = {
            re.sub(r"[^\w.-]+", "_", name).strip("_"): reading.value
            for name, reading in defined.items()
        }
        mlflow = import_module("mlflow")
        client = mlflow.MlflowClient()
        for name, value in values.items():
            client.log_metric(run_id, name, value)
        client.log_dict(run_id, {"readings": result.rows()}, "streameval.json")
        return mlflow.models.EvaluationResult(metrics=values, artifacts={})
