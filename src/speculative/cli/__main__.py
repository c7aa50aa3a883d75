"""`python -m speculative.cli`, the same as `speculative`."""

from speculative.cli import main

main()
