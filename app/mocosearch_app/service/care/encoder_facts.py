"""What the library's own copy of its encoder says of itself, without loading the network."""

from contextlib import suppress
from typing import TYPE_CHECKING

from mocosearch.errors import BadCheckpoint
from mocosearch.library import Library
from mocosearch.library.own_encoder import FOLDER

if TYPE_CHECKING:  # torch is loaded in the background: the first photos need not wait for it
    from mocosearch.encoders import EncoderFacts


def encoder_facts(library: Library) -> "EncoderFacts | None":
    """Return the card and the preprocessing of the encoder; None when its copy is missing, damaged or another one."""
    # First the package, which waits while another thread loads it: its modules, which need each other, would not.
    from mocosearch.encoders import EncoderFacts
    from mocosearch.encoders.sources import CARD_FILE

    with suppress(OSError, BadCheckpoint):
        facts = EncoderFacts.from_json((library.index.folder / FOLDER / CARD_FILE).read_bytes(), "The card")
        if facts.fingerprint == library.index.encoder.fingerprint:
            return facts
    return None
