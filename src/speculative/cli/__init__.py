"""The command `speculative`. It needs typer and rich, the extra `cli`; importing this module does not."""

import sys

_EXTRA = ("typer", "rich")


def main() -> None:
    """Run the command with the arguments of this process, and exit with its code."""
    try:
        from speculative.cli.app import app  # noqa: PLC0415 - typer and rich are optional
    except ModuleNotFoundError as missing:
        if str(missing.name).split(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            'speculative: the command needs typer and rich: pip install -e ".[cli]" in a checkout\n'
        )
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app(prog_name="speculative")
