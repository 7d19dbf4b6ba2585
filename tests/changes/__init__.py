"""Changes since a day: golden values, what they promise in worlds, and what people see."""
