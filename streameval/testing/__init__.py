"""Tests for your own metrics: the laws that every metric of the catalogue satisfies."""

from streameval.testing.laws import INPUTS, LAWS, check_metric, traffic

__all__ = ["INPUTS", "LAWS", "check_metric", "traffic"]
