"""Benchmarks that run odps_nb and its peers in the same run: ``python -m benchmarks``."""
