"""Kafka topics as a source: one member of a consumer group, and what it needs to know."""
