"""An hour of mixed work in one Jupyter kernel, to detect leaks: `make soak`."""
