"""Room for uploads is shared out in turn and given back whatever happens."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mocosearch_app.safety.limits import Room
from mocosearch_app.safety.refusal import Refused


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=40))
def test_all_get_in_in_the_order_they_came_and_never_more_than_there_is_room(amounts: list[int]) -> None:
    held, most, order = 0, 0, []

    async def run() -> None:
        room = Room(100, line=100, patience=30)

        async def upload(number: int, amount: int) -> None:
            nonlocal held, most
            async with room.take(amount):
                order.append(number)
                held += amount
                most = max(most, held)
                await asyncio.sleep(0)
                held -= amount

        await asyncio.gather(*(upload(number, amount) for number, amount in enumerate(amounts)))

    asyncio.run(run())
    assert order == list(range(len(amounts)))
    assert most <= 100


def test_who_waits_too_long_or_in_too_long_a_line_is_told_to_come_again() -> None:
    async def run() -> None:
        room = Room(100, line=1, patience=0.05)
        async with room.take(60):
            waiting = asyncio.create_task(take(room, 60))
            await asyncio.sleep(0)
            with pytest.raises(Refused) as refused:
                await take(room, 1)
            assert refused.value.status == 503
            assert refused.value.headers == {"Retry-After": "5"}
            with pytest.raises(Refused):
                await waiting
            await take(room, 40)
        await take(room, 100)

    asyncio.run(run())


def test_one_who_leaves_while_waiting_or_fails_within_takes_nothing_along() -> None:
    async def run() -> None:
        room = Room(100, line=9, patience=30)
        async with room.take(100):
            waiting = asyncio.create_task(take(room, 50))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        with pytest.raises(ZeroDivisionError):
            async with room.take(100):
                raise ZeroDivisionError
        await take(room, 100)

    asyncio.run(run())


async def take(room: Room, amount: int) -> None:
    async with room.take(amount):
        pass
