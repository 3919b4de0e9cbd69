"""docs/troubleshooting.md tells of every message that the product can give, and of none that it cannot.

Both are read here: the messages from the source, where they are made, and the entries of the page, which are the code
spans in the first column of its tables. An entry begins as its message does, has words in CAPITALS for what differs
from case to case, and `...` for a rest that the message tells by itself.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

_PROJECT = Path(__file__).parents[2]
_PAGE = (_PROJECT / "docs" / "troubleshooting.md").read_text("utf-8")
_ROOMS = [_PROJECT / name for name in ("mocosearch", "app", "index")]
_SOURCES = {path: ast.parse(path.read_bytes()) for room in _ROOMS for path in sorted(room.rglob("*.py"))}
_BASE = "MocosearchError"
_OF_OTHERS = ("UsageError", "BadParameter", "HTTPException", "Refused")  # of click and of HTTP: people see them, too
_BY_REASON = "Undecodable"  # what is wrong with a file: told by its reasons
_NOTES = ("_notices", "told_of_unknown_classes")  # what limits the figures of an evaluation
_GAP = "\0"  # what only a run knows: a name, a number
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_FEWEST = 8  # fixed characters of a message, or of an entry, that say something
_MOST_WAYS = 64  # to put a message together
_LONGEST = 400  # characters of a line for people


@dataclass(frozen=True, slots=True)
class _Message:
    text: str  # _GAP where something is filled in
    place: str


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _error_classes() -> set[str]:
    """Return the names of all classes below MocosearchError."""
    bases = {
        node.name: {_name(base) for base in node.bases}
        for tree in _SOURCES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {_BASE}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found - {_BASE}


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a scope but those of functions within it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, _FUNCTION):
            yield from _within(child)


def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what is assigned to each name in a module or a function, functions within it left out."""
    found = defaultdict(list)
    for node in _within(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id].append(node.value)
    return found


_EVERYWHERE = {
    name: values
    for tree in _SOURCES.values()
    for name, values in _assigned(tree).items()
    if name.isupper() and all(isinstance(value, ast.Constant) for value in values)
}


def _texts(node: ast.expr, names: Mapping[str, Sequence[ast.expr]], depth: int = 0) -> list[str]:
    """Return what the text `node` may be, _GAP for what is not known before it runs."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            ways = product(*(_texts(part, names, depth) for part in parts))
            return ["".join(way) for way in islice(ways, _MOST_WAYS)]
        case ast.FormattedValue(value=value):
            return _texts(value, names, depth)
        case ast.IfExp(body=one, orelse=other):
            return _texts(one, names, depth) + _texts(other, names, depth)
        case ast.Name(id=name) if depth < 2 and (values := names.get(name) or _EVERYWHERE.get(name.lstrip("_"))):
            return [text for value in values for text in _texts(value, names, depth + 1)]
    return [_GAP]


def _messages() -> Iterator[_Message]:
    """Yield every message with enough fixed text to be recognized: of errors, refusals and notes."""
    errors = (_error_classes() | set(_OF_OTHERS)) - {_BY_REASON}
    for path, tree in _SOURCES.items():
        of_module = _assigned(tree)
        for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, _FUNCTION))):
            names = of_module | _assigned(scope)
            for node in _made_in(scope, errors):
                for text in set(_texts(node, names)):
                    if len(text.replace(_GAP, "").strip()) >= _FEWEST:
                        yield _Message(" ".join(text.split()), f"{path.relative_to(_PROJECT)}:{node.lineno}")


def _made_in(scope: ast.AST, errors: set[str]) -> Iterator[ast.expr]:
    """Yield the expressions of the messages that are made in a scope."""
    makes_notes = isinstance(scope, ast.FunctionDef) and scope.name in _NOTES
    for node in _within(scope):
        if isinstance(node, ast.Call) and (_name(node.func) in errors or ast.unparse(node.func) == "notices.append"):
            yield from node.args
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func) == "error":
            _, problem, remedy = node.exc.args  # about a line of a CSV file, of which `error` makes the sentence
            parts: list[ast.expr] = [
                ast.Constant(f"Line {_GAP} of {_GAP} "),
                problem,
                ast.Constant(": "),
                remedy,
                ast.Constant("."),
            ]
            yield ast.copy_location(ast.JoinedStr(parts), node)
        elif makes_notes and isinstance(node, ast.Yield) and node.value is not None:
            yield node.value


def _entries() -> list[str]:
    """Return the messages that the page quotes: code of several words in the first column of a table."""
    rows = re.findall(r"^\| (.+?) \|", _PAGE, re.MULTILINE)
    return [entry for row in rows for entry in re.findall(r"`([^`]+)`", row) if " " in entry]


def _pattern(entry: str) -> re.Pattern[str]:
    """Return what an entry stands for: all of a message, or with dots at the end its beginning."""
    parts = re.split(r"([A-Z][A-Z0-9]+\b|\bN\b)", entry.removesuffix("..."))
    fixed = (re.escape(part) if number % 2 == 0 else ".+?" for number, part in enumerate(parts))
    return re.compile("".join(fixed) + ("" if entry.endswith("...") else r"\Z"))


def _said(text: str) -> str:
    """Return a message as the page quotes it: without what stands around names and commands, or before notes."""
    return text.replace(f"'{_GAP}'", _GAP).replace("`", "").removeprefix("Note ")


def _printed() -> Iterator[str]:
    """Yield all texts of the source: some are printed, and not made where messages are looked for."""
    for tree in _SOURCES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                yield from (_said(" ".join(text.split())) for text in _texts(node, {}) if len(text) < _LONGEST)


def test_every_message_is_told() -> None:
    patterns = [_pattern(entry) for entry in _entries()]
    messages = list(_messages())
    assert len(messages) > 200  # or they are made in a way that is not looked for here
    untold = [m for m in messages if not any(pattern.match(_said(m.text)) for pattern in patterns)]
    lines = "\n".join(f"{m.place}: {m.text.replace(_GAP, '…')}" for m in untold)
    assert not untold, f"docs/troubleshooting.md says nothing of\n{lines}"


def test_the_page_quotes_no_message_that_is_not_given() -> None:
    raised = {_said(message.text) for message in _messages()}
    others = [entry for entry in _entries() if not any(map(_pattern(entry).match, raised))]
    printed = set(_printed())
    assert [entry for entry in others if not any(map(_pattern(entry).match, printed))] == []


def test_every_entry_says_enough_to_be_recognized() -> None:
    fixed = {entry: re.sub(r"[A-Z][A-Z0-9]+\b|\bN\b|\W", "", entry) for entry in _entries()}
    assert [entry for entry, letters in fixed.items() if len(letters) < _FEWEST] == ["Line N of FILE PROBLEM: REMEDY."]


def test_every_class_of_errors_is_named() -> None:
    unnamed = {name for name in _error_classes() if f"`{name}`" not in _PAGE}
    assert not unnamed


def test_every_reason_for_which_a_file_is_skipped_is_told() -> None:
    tables = {name: value for tree in _SOURCES.values() for name, value in _assigned(tree).items()}
    (advice,), (of_verify,), (changed,) = tables["ADVICE"], tables["REASONS"], tables["CHANGED"]
    assert isinstance(advice, ast.Dict)
    assert isinstance(of_verify, ast.Dict)
    reasons = [ast.literal_eval(node) for node in (*filter(None, advice.keys), *of_verify.values, changed)]
    assert len(reasons) > 10
    assert [reason for reason in reasons if not re.search(rf"^\| .*`{reason}`.* \|", _PAGE, re.MULTILINE)] == []
