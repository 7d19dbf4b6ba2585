"""From the bytes of records to columns of events, or a reason why they are invalid."""
