"""For the tests of people who write metrics of their own: the laws that ours are held to."""

from streameval.testing.check import LAWS, check_metric
from streameval.testing.traffic import INPUTS, traffic

__all__ = ["INPUTS", "LAWS", "check_metric", "traffic"]
