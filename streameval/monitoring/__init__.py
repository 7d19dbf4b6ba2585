"""Rules, alerts and dashboards for Prometheus and Grafana, made from a configuration."""
