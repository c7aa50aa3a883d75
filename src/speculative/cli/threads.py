"""How many threads BLAS uses. It reads that when numpy is loaded, so a command may have to begin anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import typer

VARIABLES = "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"


def begin_with(number: int, arguments: Sequence[str]) -> None:
    """Go on where the environment says so many threads; else run the command in one that does, and exit.

    Parameters
    ----------
    number : int
        Threads of BLAS.
    arguments : sequence of str
        What `speculative` is to be run with.

    Raises
    ------
    typer.Exit
        After the command has run, with its code.
    """
    wanted = dict.fromkeys(VARIABLES, str(number))
    if wanted.items() <= os.environ.items():
        return
    command = [sys.executable, "-m", "speculative.cli", *arguments]
    raise typer.Exit(subprocess.run(command, env={**os.environ, **wanted}, check=False).returncode)
