"""Seeded events similar to production traffic."""

from __future__ import annotations

import random

import numpy as np

from streameval import Columns, Event

CATALOG = [f"item-{number}" for number in range(50_000)]


def clicks(events: int, k: int = 20, *, catalog: int = len(CATALOG)) -> list[Event]:
    """Click traffic: one list in ten has one interaction, mostly a hit."""
    draw = random.Random(1)
    made = []
    for _ in range(events):
        items = _items(draw, k, catalog)
        interactions = [draw.choice(items)] if draw.random() < 0.1 else []
        made.append(Event(recommendations=items, interactions=interactions))
    return made


def offline(events: int, k: int = 20, *, catalog: int = len(CATALOG)) -> list[Event]:
    """Offline-like lists: 1 to 10 interactions each, about a third of them hits."""
    draw = random.Random(1)
    made = []
    for _ in range(events):
        items = _items(draw, k, catalog)
        interactions = {
            draw.choice(items) if draw.random() < 0.35 else _item(draw, catalog)
            for _ in range(draw.randint(1, 10))
        }
        made.append(Event(recommendations=items, interactions=sorted(interactions)))
    return made


def columns(lists: int, k: int, *, least: int = 1, most: int = 10, seed: int = 1) -> Columns:
    """Columns of integers: distinct items, and `least` to `most` interactions per list."""
    draw, catalog = np.random.default_rng(seed), len(CATALOG)
    first = (catalog * draw.random((lists, 1)) ** 3).astype(np.int64)
    recommended = draw.permuted((first + 7919 * np.arange(k)) % catalog, axis=1)
    lengths = draw.integers(least, most + 1, lists)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    list_index = np.repeat(np.arange(lists), lengths)
    hits = recommended[list_index, draw.integers(0, k, list_index.size)]
    others = draw.integers(0, catalog, list_index.size)
    interactions = np.where(draw.random(list_index.size) < 0.35, hits, others)
    return Columns(recommendations=recommended, interactions=(interactions, offsets))


def _items(draw: random.Random, k: int, catalog: int) -> list[str]:
    items: dict[str, None] = {}
    while len(items) < k:
        items[_item(draw, catalog)] = None
    return list(items)


def _item(draw: random.Random, catalog: int) -> str:
    # Popularity is skewed: half of the shown items come from an eighth of the catalogue.
    return CATALOG[int(catalog * draw.random() ** 3)]
