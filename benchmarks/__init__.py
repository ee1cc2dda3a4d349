"""Benchmarks that compare odps_nb with its peers in one run; run all: ``python -m benchmarks``."""
