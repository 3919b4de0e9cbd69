"""The command line: one thin module a command. It parses, calls the library and prints."""

from mocosearch.cli.main import main

__all__ = ["main"]
