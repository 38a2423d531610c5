"""A command line as tests run it: in this process, on a screen of so many columns, in black and white."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.testing

import nearsay.cli

# Built once: it takes longer than most commands.
typer.testing._get_command = cache(typer.main.get_command)


def run(*arguments: object, app: typer.Typer = nearsay.cli.app, columns: int = 80, **options: Any) -> Any:
    """What a command prints on ``stdout`` and ``stderr``, and its ``exit_code``."""
    runner = typer.testing.CliRunner(env={"COLUMNS": str(columns), "FORCE_COLOR": None})
    return runner.invoke(app, [str(each) for each in arguments], **options)
