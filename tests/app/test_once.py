import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mocosearch_app.service.pictures.once import Once


def test_callers_at_the_same_time_share_one_piece_of_work() -> None:
    once: Once[int] = Once()
    began, go_on, joining = threading.Event(), threading.Event(), threading.Semaphore(0)
    calls = []

    def work() -> int:
        calls.append(1)
        began.set()
        assert go_on.wait(10)
        return 7

    def join() -> int:
        joining.release()
        return once("key", lambda: calls.append(2) or 8)

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(once, "key", work)
        assert began.wait(10)
        others = [threads.submit(join) for _ in range(3)]
        assert once("another key", lambda: 9) == 9  # which does not wait for it
        for other in others:
            assert joining.acquire(timeout=10)
            with pytest.raises(TimeoutError):
                other.result(0.1)
        go_on.set()
        assert [first.result(10), *(other.result(10) for other in others)] == [7] * 4
    assert calls == [1]


def test_work_is_done_anew_later() -> None:
    once: Once[int] = Once()
    results = iter([1, 2])
    assert [once("key", lambda: next(results)) for _ in range(2)] == [1, 2]


def test_work_that_failed_fails_for_all_who_waited_and_can_be_tried_again() -> None:
    once: Once[int] = Once()
    began, go_on = threading.Event(), threading.Event()

    def fail() -> int:
        began.set()
        assert go_on.wait(10)
        raise LookupError("no such thing")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(once, "key", fail)
        assert began.wait(10)
        second = threads.submit(once, "key", lambda: 1)
        with pytest.raises(TimeoutError):
            second.result(0.3)
        go_on.set()
        for failed in (first, second):
            with pytest.raises(LookupError, match="no such thing"):
                failed.result(10)
    assert once("key", lambda: 2) == 2
