"""Decodes the bytes of records to columns of events, or to a reason why they are invalid."""
