"""Kafka topics as a source: one member of a consumer group."""
