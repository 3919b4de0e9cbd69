"""The work that goes on behind the page, or how it ended; the buttons that begin and end it."""

from collections.abc import Collection
from html import escape

from mocosearch.library import UpdateReport
from mocosearch_app.page.words import listed, time_left
from mocosearch_app.service.care.caretaker import Ended, Running, Task
from mocosearch_app.service.care.tabs import Work

AGAIN = 1000  # milliseconds after which the page asks how far the work is
_DOING: dict[Task, str] = {
    "rescan": "Rescanning the folder",
    "find-copies": "Looking for copies",
    "find-identical": "Looking for identical files",
}
_STEPS = {
    "": "starting",
    "walking": "looking for photos",
    "comparing": "comparing with known photos",
    "embedding": "embedding new photos",
    "saving": "preparing the search",
    "Reading": "reading what is known of the photos",
    "Placing": "finding the nearest of every photo",
    "Measuring": "measuring on made copies how well the encoder tells them",
    "Comparing": "comparing all photos",
}


def work(state: Work, own: Collection[Task]) -> str:
    """Show what goes on, or how the last of the tasks `own` of this tab ended; nothing before the first."""
    if isinstance(state, Running):
        return _running(state)
    if state is None or state.task not in own:
        return ""
    kind, words = _ended(state)
    return f'<p class="outcome {kind}" role="status">{escape(words)}</p>' if words else ""


def button(task: Task, label: str, state: Work, *, quiet: bool = False) -> str:
    """Return a button that begins a task; it cannot be pressed while one is going on."""
    disabled = " disabled" if isinstance(state, Running) else ""
    look = "action quiet" if quiet else "action"
    return f'<button type="button" class="{look}" id="{task}" data-action="{task}"{disabled}>{label}</button>'


def again(state: Work) -> int | None:
    """Return after how many milliseconds there is news to ask for."""
    return AGAIN if isinstance(state, Running) else None


def _running(state: Running) -> str:
    doing, step = _DOING[state.task], _STEPS[state.step]
    amount = f"{state.done:,} of {state.total:,}" if state.total else f"{state.done:,}" if state.done else ""
    left = "" if state.seconds_left is None else time_left(state.seconds_left)
    told = "stopping" if state.stopping else ", ".join(filter(None, (step, amount, left)))
    known = f' value="{state.done}" max="{state.total}"' if state.total else ""
    disabled = " disabled" if state.stopping else ""
    return (
        f'<div class="work"><p><strong>{doing}</strong> <span>{told}</span></p>'
        f'<progress aria-label="{doing}"{known}></progress>'
        f'<button type="button" class="action quiet" id="stop" data-action="stop"{disabled}>Stop</button></div>'
    )


def _ended(state: Ended) -> tuple[str, str]:
    """Return of which kind an end is, and the words for it."""
    if state.failure is not None:
        return "bad", state.failure
    if state.update is not None:
        return _updated(state.update)
    return ("", "Stopped before anything was found.") if state.stopped else ("", "")  # what was found speaks itself


def _updated(update: UpdateReport) -> tuple[str, str]:
    news = listed(
        {
            "new or changed": update.embedded,
            "moved": update.moved,
            "copied": update.copied,
            "back again": update.returned,
            "gone": update.missing - update.left_out,
            "left out by rules": update.left_out,
            "could not be read": len(update.skipped),
        }
    )
    end = "Stopped; what was done is kept" if update.stopped else "The library is up to date"
    words = f"{end}: {news or 'nothing new'}."
    if not update.kept:
        return ("", words) if update.stopped else ("good", words)
    kept = (
        f"{update.kept:,} photos are gone from the folder but were kept: connect the drive they are on, or run "
        "mocosearch index --prune if they were deleted."
    )
    return "bad", f"{words} {kept}"
