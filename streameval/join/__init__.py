"""The join: impressions and later interactions become events."""
