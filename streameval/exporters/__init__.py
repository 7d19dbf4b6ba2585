"""Where readings go: Prometheus, the page and its API, a table."""
