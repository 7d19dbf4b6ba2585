"""For the tests of people who write metrics of their own: the laws that ours are held to."""

from streameval.testing.laws import INPUTS, LAWS, check_metric, traffic

__all__ = ["INPUTS", "LAWS", "check_metric", "traffic"]
