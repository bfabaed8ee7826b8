"""The `accelopt` command: assembles the sub-commands and turns errors into one line."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import typer

from accelopt import __version__
from accelopt.cli import (
    attack,
    bench,
    conformance,
    continue_run,
    doctor,
    evaluate,
    listings,
    optimize,
    runs,
    verify,
)
from accelopt.errors import AcceloptError

USAGE_ERROR = 2

# typer brings its own copy of click or uses the installed one, depending on its version; both
# derive their complaints from one base.
_CliError = cast(type[Exception], typer.BadParameter.__mro__[2])


def build_app() -> typer.Typer:
    """The typer application with the built-in commands and those of plugins."""
    app = typer.Typer(
        name="accelopt",
        help="Make accelerator kernels faster: a self-improving search over NKI kernels.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    optimize.register(app)
    continue_run.register(app)
    evaluate.register(app)
    listings.register(app)
    runs.register(app)
    bench.register(app)
    conformance.register(app)
    doctor.register(app)
    verify.register(app)
    attack.register(app)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"accelopt {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_version
    ),
) -> None:
    pass


def _add_plugin_commands(app: typer.Typer) -> None:
    from accelopt.plugins import installed

    for name, command in installed().commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the process exits with 0, or 2 and one line on standard error."""
    try:
        app = build_app()
        _add_plugin_commands(app)
        command = typer.main.get_command(app)
        code = command.main(args=arguments, prog_name="accelopt", standalone_mode=False)
    except _CliError as error:
        message = str(cast(Any, error).format_message())
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            sys.exit(0)
        _fail(message)
    except AcceloptError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (`| head`); nothing is wrong with us.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    line = " ".join(message.split())
    print(f"accelopt: error: {line}", file=sys.stderr)
    sys.exit(USAGE_ERROR)
