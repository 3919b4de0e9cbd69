"""Encoders: what turns a photo into a vector, from wherever it comes, in the form that is searched and exported."""

from mocosearch.encoders.card import IMAGENET, EncoderCard, EncoderFacts, Preprocessing, fingerprint
from mocosearch.encoders.encoder import Encoder, load_encoder, save_encoder
from mocosearch.encoders.sources import FORMS, new_network
from mocosearch.encoders.untrained import untrained_like

__all__ = [
    "FORMS",
    "IMAGENET",
    "Encoder",
    "EncoderCard",
    "EncoderFacts",
    "Preprocessing",
    "fingerprint",
    "load_encoder",
    "new_network",
    "save_encoder",
    "untrained_like",
]
