import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.library import Library
from mocosearch_app.service.embedder import Busy, Embedder

RED = Image.new("RGB", (80, 60), "red")


@pytest.fixture
def library(indexed: Path) -> Iterator[Library]:
    with Library.open(indexed) as library:
        yield library


def test_many_who_ask_at_once_get_the_vectors_of_their_own_pictures(library: Library) -> None:
    pictures = [Image.new("RGB", (80, 60), (shade, 255 - shade, 40)) for shade in range(0, 250, 10)]
    vectors: dict[int, np.ndarray] = {}
    with closing(Embedder(library)) as embedder:

        def ask(number: int) -> None:
            vectors[number] = embedder.embed(pictures[number])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(pictures))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, picture in enumerate(pictures):
        assert vectors[number] @ library.encoder.embed_image(picture) == pytest.approx(1, abs=1e-4)


def test_who_waits_too_long_in_line_is_told_so_and_the_next_one_is_served(library: Library) -> None:
    go_on = threading.Event()
    with closing(Embedder(library, patience=0.2)) as impatient:
        lanes = impatient.start()
        held = [lanes.submit(go_on.wait) for _ in range(32)]  # more than there are lanes
        with pytest.raises(Busy, match="try again"):
            impatient.embed(RED)
        go_on.set()
        assert all(each.result() for each in held)
        assert lanes.submit(lambda: None).result() is None  # the line is empty
    with closing(Embedder(library)) as patient:
        assert patient.embed(RED).shape == (512,)


def test_who_asks_alone_has_all_cores(library: Library) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with closing(Embedder(library)) as embedder:
            embedder.embed(RED)
            assert embedder.start().submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_when_it_is_closed_its_threads_are_gone_and_torch_has_its_own_again(library: Library) -> None:
    before = torch.get_num_threads()
    with closing(Embedder(library)) as embedder:
        embedder.embed(RED)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("embed")]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("embed")]
    assert torch.get_num_threads() == before


def test_an_embedder_that_was_never_asked_closes_without_loading_anything(library: Library) -> None:
    Embedder(library).close()
    assert "encoder" not in vars(library)
