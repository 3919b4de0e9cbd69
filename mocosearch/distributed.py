"""Batch norm over the part of a batch that one rank sees, and the shuffle that keeps it from leaking the answer.

One process stands for several ranks here: a batch is split into groups, each normalized by its own statistics, as
each rank would (MoCo, section 3.3, "Shuffling BN").
"""

from collections.abc import Callable

import torch
from torch import Tensor

from mocosearch import randomness

Encode = Callable[[Tensor], Tensor]
Permutation = Callable[[int, int], Tensor]  # (step, batch) -> int64 (batch,)


def encode_in_groups(encode: Encode, images: Tensor, groups: int) -> Tensor:
    """Encode (B, ...) in `groups` consecutive parts of equal size; batch norm sees one part at a time."""
    if groups == 1:
        return encode(images)
    if len(images) % groups:
        raise ValueError(f"a batch of {len(images)} cannot be split into {groups} equal batch-norm groups")
    return torch.cat([encode(part) for part in images.chunk(groups)])


def encode_shuffled(encode: Encode, images: Tensor, groups: int, permutation: Tensor) -> Tensor:
    """Encode (B, ...) in groups of a shuffled batch and put the outputs back in the order of the input.

    A key then shares its batch-norm statistics with other images than its query does, so that the statistics do not
    give away which key is the positive.
    """
    if groups == 1:
        return encode(images)  # one group holds the whole batch in any order
    order = permutation.to(images.device)
    return encode_in_groups(encode, images[order], groups)[order.argsort()]


def seeded_permutation(seed: int) -> Permutation:
    """Return the permutation of a step as a pure function of (seed, step): the same after a resume."""

    def permutation(step: int, batch: int) -> Tensor:
        return torch.from_numpy(randomness.permutation(seed, step, size=batch))

    return permutation
