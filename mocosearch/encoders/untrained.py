"""The floor of every comparison: an encoder like another one that has never seen a photo."""

from dataclasses import replace

import torch

from mocosearch import randomness
from mocosearch.encoders.encoder import Encoder
from mocosearch.encoders.sources import new_network


def untrained_like(encoder: Encoder, seed: int = 0) -> Encoder:
    """Return an encoder of the same architecture, stem, preprocessing and device with random weights.

    The weights are drawn as the architecture's authors begin a training; the global generator is left alone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(randomness.seed_of(seed))
        network = new_network(encoder.card)
    card = replace(encoder.card, trained_on="nothing", photos=0, steps=0, recipe="none", created="")
    return Encoder(network, card, encoder.preprocessing, encoder.device)
