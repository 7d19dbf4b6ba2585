"""Online evaluation of recommender systems: exact, mergeable, from a stream of events."""

__version__ = "0.1.0"
