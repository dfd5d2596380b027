"""Reproduces the table: warm start, every row and seed through a notebook, intervals, figures. `python -m reproduce --help`."""
