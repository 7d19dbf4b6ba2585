"""Partial results, counted anywhere and merged exactly."""

from streameval.evaluation.partials import *  # noqa: F403  the address that users import them from
