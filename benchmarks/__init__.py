"""Benchmarks beside the peers, in the same run: ``python -m benchmarks`` runs them all."""
