# /// script
# dependencies = ["dagster", "streameval"]
# ///
"""A Dagster asset with the metrics of a day's events, which Dagster plots over its runs.

Try it: python dagster_asset.py "logs/*.ndjson" (or `dagster dev -f dagster_asset.py`).
"""

import sys

import dagster

from streameval import evaluate


class Events(dagster.Config):
    """The files of the day: a path, or a pattern."""

    path: str


@dagster.asset
def ranking(config: Events) -> dagster.MaterializeResult:
    """Metrics of the recommender; one without a value is left out."""
    found = evaluate(config.path, "ndcg@2", "hit_rate@1")
    readings = {name: found[name] for name in ("ndcg@2", "hit_rate@1")}
    values = {name: reading.value for name, reading in readings.items() if reading.defined}
    return dagster.MaterializeResult(metadata=values)


def main() -> None:
    """Materialize the asset once, and print what Dagster keeps."""
    settings = dagster.RunConfig({"ranking": Events(path=sys.argv[1])})
    done = dagster.materialize([ranking], run_config=settings)
    (event,) = done.get_asset_materialization_events()
    for name, value in event.materialization.metadata.items():
        sys.stdout.write(f"{name} {value.value}\n")


if __name__ == "__main__":
    main()
