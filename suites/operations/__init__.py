"""What operators rely on: probes, load, proxies, and a stable contract."""
