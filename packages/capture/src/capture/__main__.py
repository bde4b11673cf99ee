"""`python -m capture explain script.py [arguments]`: what of a script is captured. `python -m capture causes`: docs/breaks.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .causes import page_text
from .explain_script import explain_script


def main(given: Sequence[str]) -> int:
    """Do what the command line says; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m capture")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="run a script, and print what was captured, what was not, and why")
    explain.add_argument("--graphs", action="store_true", help="print the operations of each graph")
    explain.add_argument("script")
    explain.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    commands.add_parser("causes", help="print all causes of breaks, with what to do: docs/breaks.md")
    options = parser.parse_args(given)
    if options.command == "causes":
        print(page_text(), end="")
        return 0
    return explain_script(options.script, options.arguments, with_graphs=options.graphs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
