"""The copy of its encoder that a library has, so that it is whole and can be moved."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mocosearch.errors import BadCheckpoint, NoEncoder
from mocosearch.user_folders import current_fingerprint, encoder_trained_last
from mocosearch_index.atomic import remove_partials
from mocosearch_index.catalog.file import not_an_index
from mocosearch_index.errors import EncoderMismatch, MocosearchError
from mocosearch_index.image_index import ImageIndex, is_index
from mocosearch_index.paths import shown
from mocosearch_index.records import EncoderIdentity, Problem

if TYPE_CHECKING:  # torch is loaded only when a picture is embedded
    from mocosearch.encoders import Encoder

FOLDER = "encoder"  # in that of the index


def load(encoder: str | Path) -> "Encoder":
    """Load an encoder from wherever one can be; see `load_encoder`."""
    from mocosearch.encoders import load_encoder

    return load_encoder(encoder)


def identity_of(encoder: "Encoder") -> EncoderIdentity:
    """Return what an index knows of its encoder."""
    return EncoderIdentity(encoder.fingerprint, encoder.dim, encoder.card.description)


class OwnEncoder:
    """The copy beside one index, and what the index says of it."""

    def __init__(self, index: ImageIndex) -> None:
        self._index = index
        self.folder = index.folder / FOLDER

    def load(self) -> "Encoder":
        """Load the copy; NoEncoder, EncoderMismatch, NotAnIndex (all of it is gone)."""
        try:
            encoder = load(self.folder)
        except (NoEncoder, BadCheckpoint) as error:
            if not is_index(self._index.folder):
                raise not_an_index(self._index.folder) from error
            own = self._index.encoder
            raise NoEncoder(
                f"The copy of the encoder in {shown(self.folder)} is missing or damaged: index "
                f"{shown(self._index.root)} again with --encoder E, naming {own.fingerprint} ({own.description})."
            ) from error
        self.check(encoder)
        return encoder

    def check(self, encoder: "Encoder") -> None:
        """Raise EncoderMismatch unless `encoder` made the vectors of the index."""
        own = self._index.encoder
        if encoder.fingerprint != own.fingerprint:
            raise EncoderMismatch(
                f"The index in {shown(self._index.folder)} was made with encoder {own.fingerprint} "
                f"({own.description}), not with {encoder.fingerprint} ({identity_of(encoder).description}): "
                "leave out --encoder, or delete that folder and index again."
            )

    def save(self, encoder: "Encoder") -> None:
        """Make `encoder` the copy; DiskFull."""
        remove_partials(self.folder)
        encoder.save(self.folder)

    def verify(self, repair: bool) -> list[Problem]:
        """Read and check the copy. It can be mended when the encoder that was trained last is the same."""
        own = self._index.encoder
        try:
            self.check(load(self.folder))
            return []
        except NoEncoder:
            state = "missing"
        except (BadCheckpoint, EncoderMismatch) as error:
            state = f"damaged ({_without_remedy(error)})"
        what = f"The copy of the encoder in {shown(self.folder)} is {state}"
        if repair and self._mend():
            return [Problem(what, "it was copied again from the encoder that was trained last.", repaired=True)]
        return [Problem(what, f"index with --encoder E, naming {own.fingerprint} ({own.description}).")]

    def _mend(self) -> bool:
        if current_fingerprint() != self._index.encoder.fingerprint:
            return False
        with suppress(NoEncoder, BadCheckpoint, EncoderMismatch):
            encoder = load(encoder_trained_last())
            self.check(encoder)
            self.save(encoder)
            return True
        return False


def _without_remedy(error: MocosearchError) -> str:
    return str(error).partition(": ")[0].rstrip(".")
