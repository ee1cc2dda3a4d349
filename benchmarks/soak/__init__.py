"""An hour of mixed work in one Jupyter kernel, and whether anything of it grows: `make soak`."""
