"""Joins what was shown with what people did later: impressions and interactions become events."""
