"""What a query is compared with: each dictionary differs in where its keys come from (MoCo, section 3.2).

    k_positive, negatives = dictionary.look_up(keys, ids)
    dictionary.update(keys, ids)                              # after the optimizer step

`keys` (B, C) and `ids` (B,) are those of one rank's batch; what a dictionary stores is the same on every rank.
"""

import numpy as np
import torch
from torch import Tensor, nn

from mocosearch import randomness
from mocosearch.distributed import gather, own_part
from mocosearch.nets import unit_norm


def random_unit_vectors(count: int, dim: int, seed: int) -> Tensor:
    """Return (count, dim) random directions."""
    return unit_norm(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)))


class Queue(nn.Module):
    """The last K keys of a momentum encoder, the oldest replaced first ("Dictionary as a queue").

    Takes any K and any batch: a batch larger than K leaves its last K keys. The queue starts with random unit
    vectors; `fill` says how much of it real keys have replaced.
    """

    keys: Tensor  # (K, C), rows of unit length
    pointer: Tensor  # int64 scalar: where the next key goes
    seen: Tensor  # int64 scalar: keys enqueued so far

    def __init__(self, size: int, dim: int, *, seed: int = 0) -> None:
        super().__init__()
        self.register_buffer("keys", random_unit_vectors(size, dim, seed))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def look_up(self, keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch's own keys (B, C) as positives and the whole queue (K, C) as negatives of all queries."""
        return keys, self.keys

    @torch.no_grad()
    def update(self, keys: Tensor, ids: Tensor) -> None:
        """Enqueue all ranks' keys, of unit length, and drop the oldest."""
        keys, size = gather(keys), len(self.keys)
        skipped = max(0, len(keys) - size)  # these would be overwritten within this very call
        positions = torch.arange(skipped, len(keys), device=keys.device)
        self.keys[(self.pointer + positions) % size] = keys[skipped:].to(self.keys.dtype)
        self.pointer.copy_((self.pointer + len(keys)) % size)
        self.seen += len(keys)

    def fill(self) -> Tensor:
        """Return the share of the queue, from 0 to 1, that holds real keys."""
        return (self.seen / len(self.keys)).clamp(max=1.0)


class InBatch(nn.Module):
    """The other images of the same batch, over all ranks: perfectly consistent, as small as the batch."""

    def look_up(self, keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return positives (B, C) and for each query all other keys of the batch (B, N - 1, C), with gradient."""
        everyone = gather(keys)  # (N, C)
        numbers = torch.arange(len(everyone), device=keys.device)
        own = numbers[own_part(len(keys))]
        others = numbers.expand(len(own), -1)[numbers != own[:, None]].view(len(own), -1)  # (B, N - 1)
        return everyone[own], everyone[others]

    def update(self, keys: Tensor, ids: Tensor) -> None:
        """Keep nothing."""


class MemoryBank(nn.Module):
    """A stored key for every image of the collection, as old as the image's last visit.

    K of them are drawn as negatives, the same for all queries of a step and none of the batch's own images; which
    ones is a function of (seed, step). A stored key follows its image's new feature with `momentum`.
    """

    keys: Tensor  # (images, C), rows of unit length
    step: int  # updates so far

    def __init__(self, images: int, dim: int, *, negatives: int, momentum: float, seed: int = 0) -> None:
        super().__init__()
        self.negatives = negatives
        self.momentum = momentum
        self.seed = seed
        self.step = 0
        self.register_buffer("keys", random_unit_vectors(images, dim, seed))

    def look_up(self, keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stored keys (B, C) of the batch's images and K (K, C) of other images, without gradient."""
        order = randomness.permutation(self.seed, self.step, size=len(self.keys))
        others = order[~np.isin(order, gather(ids).cpu().numpy())][: self.negatives]
        return self.keys[ids], self.keys[torch.from_numpy(others).to(self.keys.device)]

    @torch.no_grad()
    def update(self, keys: Tensor, ids: Tensor) -> None:
        """Move the stored keys of all ranks' images towards their new features, and normalize."""
        keys, ids = gather(keys), gather(ids)
        blended = self.momentum * self.keys[ids] + (1 - self.momentum) * keys.to(self.keys.dtype)
        self.keys[ids] = unit_norm(blended)
        self.step += 1

    def get_extra_state(self) -> dict[str, int]:
        """Return what the state dict carries besides tensors."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take back what `get_extra_state` gave."""
        self.step = state["step"]
