"""`python -m bpo` is the `bpo` command."""

from bpo.cli import main

main()
