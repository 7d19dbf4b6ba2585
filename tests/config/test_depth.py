"""The depth of a saved state, and the depth needed at the next start."""

from __future__ import annotations

from streameval.checkpoints.restore import other_settings
from streameval.config import Config
from streameval.config.pipeline import with_saved_depth
from streameval.sources.options import SimulatorOptions
from tests.effort import every_case


def _config(*metrics: str, depth: int | None = None) -> Config:
    return Config(metrics=[*metrics], depth=depth, catalog=100, source=SimulatorOptions())


@every_case(
    ("old", "new", "depth"),
    [
        (["ndcg@20"], ["ndcg@10"], 20),
        (["ndcg@20"], ["ndcg@20", "mrr@5"], 20),
        (["mrr"], ["ndcg@10"], None),
        (["ndcg@20"], ["item_coverage@50"], 20),
        (["mrr"], ["item_coverage@50"], None),
    ],
)
def test_a_sufficient_saved_depth_is_kept(old: list[str], new: list[str], depth: int) -> None:
    saved = _config(*old).settings()
    now = with_saved_depth(_config(*new), saved)
    assert now.kept_depth() == depth
    assert other_settings(now.settings(), saved) is None


@every_case(
    ("new", "depth"), [(["ndcg@10"], None), (["mrr"], None), (["ndcg@2"], 2), (["ndcg@2"], 9)]
)
def test_an_insufficient_saved_depth_is_rejected_with_a_remedy(
    new: list[str], depth: int | None
) -> None:
    saved = _config("ndcg@5").settings()
    problem = other_settings(with_saved_depth(_config(*new, depth=depth), saved).settings(), saved)
    assert problem is not None
    assert "depth is" in problem
    assert "and was 5 (it can be kept with depth = 5 and no cut-off beyond that)" in problem
