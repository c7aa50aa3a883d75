"""The command `speculative` and its commands, and how every error becomes one line."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from speculative import CannotEnumerateError, ImpureProgramError, TooManyPathsError, __version__
from speculative.cli import bench, generate, plan, prove, verifiers
from speculative.cli.own import as_found

BAD_INPUT, CLOSED_PIPE = 2, 128 + 13
REFUSALS = (ValueError, CannotEnumerateError, ImpureProgramError, TooManyPathsError)
UsageError: Any = typer.BadParameter.__mro__[1]  # the rest of what can be wrong with arguments

HELP = """Speculative sampling with its exact output law.

A cheap draft model proposes tokens, and the target model verifies several of them in one pass. Where the
verifier is lossless, what comes out has exactly the law of the target alone."""


class BareFlags:
    """Parameters whose help names no type where it says nothing: flags and arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # that of a command
        for one in params:
            if isinstance(one, TyperArgument) or one.is_flag:
                one.display_type_rich = _no_type
        return params


def _no_type(ctx: Any) -> None:
    """Name no type."""


class Command(BareFlags, TyperCommand):
    """One of the commands."""


class OneLineErrors(BareFlags, TyperGroup):
    """A group of commands that answers bad input with one line on stderr and exit code 2."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and exit with its code; typer makes 130 of an interrupt."""
        options["standalone_mode"] = False
        try:
            code = super().main(*args, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            _leave_closed_pipe()
        except typer.BadParameter as error:
            _refuse(_command(error), error.format_message())
        except UsageError as error:
            _refuse(_command(error), f"{error.format_message().rstrip('.')}; see {_command(error)} --help")
        raise SystemExit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name, and leave the process as it was."""
        try:
            with as_found():
                return super().invoke(ctx)
        except BrokenPipeError:
            _leave_closed_pipe()
        except REFUSALS as error:
            _refuse(f"{ctx.command_path} {ctx.invoked_subcommand}", str(error))


def _command(error: Any) -> str:
    return error.ctx.command_path if error.ctx else "speculative"


def _refuse(command: str, message: str) -> NoReturn:
    sys.stderr.write(f"{command}: {' '.join(message.split())}\n")
    raise SystemExit(BAD_INPUT)


def _leave_closed_pipe() -> NoReturn:
    """Exit as other programs do whose reader has gone; nothing may be written after it, at exit neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(CLOSED_PIPE)


def paragraphs(text: str) -> str:
    """Join the lines of every paragraph, so that a narrow terminal breaks them once."""
    return "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))


app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _function, _examples in (
    (generate.generate, generate.EXAMPLES),
    (verifiers.verifiers, verifiers.EXAMPLES),
    (prove.prove, prove.EXAMPLES),
    (plan.plan, plan.EXAMPLES),
    (bench.bench, bench.EXAMPLES),
):
    _help = paragraphs(inspect.getdoc(_function) or "")
    app.command(cls=Command, help=_help, epilog=paragraphs(_examples))(_function)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"speculative {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
]


@app.callback(invoke_without_command=True, help=paragraphs(HELP))
def top(context: typer.Context, version: Version = False) -> None:  # noqa: ARG001 - its callback answers
    """Show the help where no command is given."""
    if context.invoked_subcommand is None:
        print(context.get_help())
