"""Evaluation on Beam."""

from streameval.evaluation.beam import evaluate

__all__ = ["evaluate"]
