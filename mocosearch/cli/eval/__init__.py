"""`mocosearch eval`: a command for each protocol, and what they share."""

from mocosearch.cli.eval.commands import command

__all__ = ["command"]
