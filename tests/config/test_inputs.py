"""Popularity and similarity from the files that a configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from streameval.config import load
from streameval.errors import ConfigError

_SOURCE = 'source = { type = "simulator" }\n'


def _config(folder: Path, text: str) -> Path:
    path = folder / "streameval.toml"
    path.write_text(_SOURCE + text)
    return path


def test_popularity_stands_in_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "popularity.csv").write_text("item,users\na,4\nb,1\n")
    path = _config(
        tmp_path, 'metrics = ["novelty@2"]\npopularity = { path = "popularity.csv", users = 4 }\n'
    )
    accumulator = load(path).accumulator()
    accumulator.update(["a", "b"], [])
    assert accumulator.read("novelty@2").value == 1.0


@pytest.mark.parametrize(
    ("key", "content", "diversity"),
    [("vectors", "a,1,0\nb,0,1\n", 1.0), ("pairs", "a,b,0.25\n", 0.75)],
)
def test_similarity_comes_as_vectors_or_as_pairs(
    tmp_path: Path, key: str, content: str, diversity: float
) -> None:
    (tmp_path / "similarity.csv").write_text(content)
    text = f'metrics = ["list_diversity"]\nsimilarity = {{ {key} = "similarity.csv" }}\n'
    accumulator = load(_config(tmp_path, text)).accumulator()
    accumulator.update(["b", "a"], [])
    assert accumulator.read("list_diversity").value == diversity


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,1\nb,many\n", "popularity.csv:2: 'many' is not a number; correct the line."),
        ("a,1\nb\n", "popularity.csv:2: 1 columns where 2 are needed; correct the line."),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "popularity.csv").write_text(content)
    text = 'metrics = ["novelty@2"]\npopularity = { path = "popularity.csv" }\n'
    with pytest.raises(ConfigError) as caught:
        load(_config(tmp_path, text))
    assert str(caught.value).endswith(sentence)


def test_a_metric_without_its_input_says_which_key_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metrics\[0\].*add popularity = "):
        load(_config(tmp_path, 'metrics = ["novelty@2"]\n'))


def test_vectors_and_pairs_together_are_refused(tmp_path: Path) -> None:
    text = 'metrics = ["list_diversity"]\nsimilarity = { vectors = "a", pairs = "b" }\n'
    with pytest.raises(ConfigError, match="either vectors or pairs"):
        load(_config(tmp_path, text))


@pytest.mark.parametrize("metric", ["user_novelty@2", "user_novelty"])
def test_a_metric_that_no_record_can_answer_is_refused(tmp_path: Path, metric: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\[1\].*accumulator.update\(..., history="):
        load(_config(tmp_path, f'metrics = ["mrr", "{metric}"]\n'))
