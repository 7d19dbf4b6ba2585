"""Events as columns of numbers: what numpy and Arrow hold, without a Python object an event."""

from streameval.columns.arrow import ArrowTable
from streameval.columns.coded import Coded
from streameval.columns.given import Columns, read
from streameval.columns.ragged import Ragged

__all__ = ["ArrowTable", "Coded", "Columns", "Ragged", "read"]
