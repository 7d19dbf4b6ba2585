# /// script
# dependencies = ["apache-flink", "streameval[tables]"]
# ///
"""Joins impressions with their clicks on Flink, and counts the lists.

Run it: python join_flink.py shown.parquet clicks.parquet counted.parquet
The rows of partials in counted.parquet merge to the bits of one process.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, Literal

from pyarrow import parquet
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor

from streameval.attribution import Attribution, joined, pieces, sides
from streameval.partials import Partial, arrow_table, partials

RULE = Attribution(key="user_item", window="30m", types={"click": 1, "purchase": 10})
METRICS = ("ndcg@2", "ctr", "value_per_list", "hit_rate(type=purchase)@2")
BUCKETS = 20
END = 2**62


def divide(path: str, side: Literal["impressions", "interactions"]) -> list[tuple[int, str, str]]:
    """The pieces of a file, as text."""
    return [
        (row["bucket"], side, b64encode(row["rows"]).decode())
        for row in pieces(parquet.read_table(path), side, RULE, BUCKETS).to_pylist()
    ]


class Join(KeyedProcessFunction):
    """Keeps the pieces of a bucket until the watermark has passed all of them."""

    def open(self, context: Any) -> None:
        """Make the state."""
        self.pieces = context.get_list_state(ListStateDescriptor("pieces", Types.STRING()))

    def process_element(self, value: Any, context: Any) -> None:
        """Keep a piece."""
        self.pieces.add(f"{value[1]} {value[2]}")
        context.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, context: Any) -> Iterator[Any]:  # noqa: ARG002  Flink's
        """Count the lists of the bucket."""
        split = [piece.split() for piece in self.pieces.get()]
        rows = [{"side": side, "rows": b64decode(content)} for side, content in split]
        lists = joined(*sides(rows), RULE).lists
        for row in partials([lists], *METRICS, by=["variant"]):
            yield " ".join(row.labels), row.lists, b64encode(row.state).decode()


def main(shown: str, clicks: str, counted: str) -> None:
    """Write the rows of partials."""
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_python_executable(sys.executable)
    kinds = Types.TUPLE([Types.INT(), Types.STRING(), Types.STRING()])
    out = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
    both = [*divide(shown, "impressions"), *divide(clicks, "interactions")]
    stream = environment.from_collection(both, type_info=kinds)
    stream = stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
    joined_stream = stream.key_by(lambda piece: piece[0]).process(Join(), output_type=out)
    with joined_stream.execute_and_collect() as found:
        rows = [Partial((labels,), None, lists, b64decode(state)) for labels, lists, state in found]
    parquet.write_table(arrow_table(rows), counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
