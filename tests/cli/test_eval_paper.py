"""What a person sees of the paper's linear protocol while it runs."""

import pytest

from mocosearch.cli.eval import paper


@pytest.mark.parametrize(("seconds", "lines"), [(0, ["Training: 1 of 2,000", "Training: 2 of 2,000"]), (60, [])])
def test_off_a_terminal_it_says_now_and_then_how_far_it_is(
    seconds: int, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paper, "_SECONDS_A_LINE", seconds)
    with paper._sight() as (tell, _):
        tell("Training", 1, 2000)
        tell("Training", 2, 2000)
    assert capsys.readouterr().err.splitlines() == lines
