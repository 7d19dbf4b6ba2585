"""The samples of an exposition for Prometheus, each of which it has once."""

from __future__ import annotations

from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Samples: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Name and labels -> value."""


def samples_of(text: str) -> Samples:
    """All samples of an exposition."""
    samples = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(dict(samples)) == len(samples), "a sample is there twice"
    return dict(samples)


def at(samples: Samples, name: str, **labels: str) -> float | None:
    """The value of a sample of ours with these labels and no other; None if there is none."""
    return samples.get((f"streameval_{name}", frozenset(labels.items())))


def named(samples: Samples, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Labels -> value, of the samples of ours with this name."""
    return {
        labels: value for (other, labels), value in samples.items() if other == f"streameval_{name}"
    }
