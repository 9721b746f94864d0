"""The command line of a script with several commands, such as `python benchmarks/any_shape.py race`."""

import argparse
import sys
from collections.abc import Callable, Sequence

import lowtide as lt

Run = Callable[[argparse.Namespace], int]
"""Runs a command on the parsed arguments. Returns the exit status."""


class Commands:
    """The commands of a script. The first line of `about`, the script's docstring, is the description in its help."""

    def __init__(self, about: str | None) -> None:
        self.parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
        self._commands = self.parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, name: str, run: Run, text: str) -> argparse.ArgumentParser:
        """Add a command, whose help is `text`. Returns the parser for its options."""
        one = self._commands.add_parser(name, help=text, description=text)
        one.set_defaults(run=run)
        return one

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command in `argv`, by default that of the process. Returns the exit status. An Error is printed to
        stderr; then the status is 2. Raises SystemExit(2) for options that do not parse."""
        arguments = self.parser.parse_args(argv)
        run: Run = arguments.run
        try:
            return run(arguments)
        except lt.Error as error:
            print(f"{self.parser.prog}: error: {error}", file=sys.stderr)
            return 2
