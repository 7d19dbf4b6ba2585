"""Reproducible lists with interactions, and the samples of an exposition."""

from __future__ import annotations

import random
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

List = tuple[list[str], set[str]]


def lists(count: int, seed: int = 0) -> Iterator[List]:
    """So many, of ten items with none to three clicks."""
    dice = random.Random(seed)
    for _ in range(count):
        shown = [f"item-{number}" for number in dice.sample(range(50), 10)]
        yield shown, set(dice.sample(shown, dice.randrange(4)))


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample by its name and labels."""
    return samples(generate_latest(registry).decode())


def samples(text: str) -> dict[str, float]:
    """Every sample of an exposition by its name and labels."""
    return {
        _named(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _named(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name
