"""The join: assigns interactions to impressions and makes events of them."""
