"""Evaluation on Spark."""

from streameval.evaluation.spark import SparkEvaluation, Value, evaluate

__all__ = ["SparkEvaluation", "Value", "evaluate"]
