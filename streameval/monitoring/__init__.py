"""What to watch in Prometheus and Grafana, made from a configuration: rules, alerts, dashboards."""
