"""What a person leaves out of a library or takes in against the defaults, in the syntax of gitignore."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

from mocosearch.errors import BadPattern
from mocosearch_index.paths import printable

if TYPE_CHECKING:  # imported where there are patterns, which is seldom
    from pathspec.pattern import RegexPattern

IGNORE_FILE = b".mocosearchignore"  # in any folder; counts for what is below it


class IgnoreRules:
    """What is left out besides hidden, junk and other names that the walk passes over, and what of those is taken.

    Left out is what the last matching pattern of the ignore files, from the root down, and of `exclude` says, unless it
    begins with "!", which lets the usual rules decide. What matches `include` is taken in spite of all that.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """BadPattern when a pattern means nothing."""
        self._include = _compile(include, "--include")
        self._exclude = _compile(exclude, "--exclude")
        self._files: tuple[tuple[int, list[RegexPattern]], ...] = ()  # of each file how long its folder's name is

    @property
    def are_silent(self) -> bool:
        """Whether there is no pattern at all."""
        return not (self._include or self._exclude or self._files)

    def with_file(self, folder: bytes, content: bytes) -> Self:
        """Return these rules with those of the ignore file in `folder` ("" or ending in "/") put in; BadPattern."""
        lines = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").splitlines()
        patterns = _compile(lines, f"'{printable(folder + IGNORE_FILE)}'")
        rules = type(self)()
        rules._include, rules._exclude = self._include, self._exclude
        rules._files = (*self._files, (len(os.fsdecode(folder)), patterns)) if patterns else self._files
        return rules

    def verdict(self, path: bytes) -> bool | None:
        """Tell whether `path` (relative to the root, a folder's ends in "/") is to be taken; None: as its name says.

        Only of the path itself: what is in a folder that is left out is never asked about, as in git.
        """
        name = os.fsdecode(path)
        if _last_match(self._include, name):
            return True
        for start, patterns in ((0, self._exclude), *reversed(self._files)):
            match = _last_match(patterns, name[start:])
            if match is not None:
                return False if match else None
        return None


def _compile(lines: Iterable[str], source: str) -> "list[RegexPattern]":
    """Return the patterns of `lines` without empty ones and comments."""
    # "a/**/" means all folders in a; pathspec takes it for "a/", and "a/**/*/" for what is meant.
    lines = [f"{line}*/" if line.endswith("/**/") else line for line in lines]
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines:
        return []
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore import GitIgnorePatternError

    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except GitIgnorePatternError as error:
        raise BadPattern(f"A pattern in {source} means nothing ({error}): write it as in a .gitignore.") from error
    return [pattern for pattern in spec.patterns if pattern.include is not None]


def _last_match(patterns: "Sequence[RegexPattern]", path: str) -> bool | None:
    """Return what the last pattern that matches says: False when it begins with "!"; None when there is none."""
    return next((pattern.include for pattern in reversed(patterns) if _names(pattern, path)), None)


def _names(pattern: "RegexPattern", path: str) -> bool:
    """Whether the pattern means `path` itself, not only a folder above it, which pathspec lets count as well.

    In its expressions the group `ps_d` is the "/" after a folder that the pattern names. Without that group a "/" at
    the end of the match is that of "folder/**", which means what is in the folder and not the folder. "*/" is any "/".
    """
    matches = pattern.regex.finditer(path) if pattern.regex is not None else ()
    return any(
        match.end("ps_d") == len(path)
        if match.groupdict().get("ps_d")
        else not (path.endswith("/") and match.end() == len(path))
        for match in matches
    )
