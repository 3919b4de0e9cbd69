"""What a query is compared with: each dictionary differs in where its keys come from (MoCo, section 3.2)."""

import torch
from torch import Tensor, nn

from mocosearch.nets import unit_norm


class Queue(nn.Module):
    """The last K keys of a momentum encoder, the oldest replaced first (MoCo, section 3.2, "Dictionary as a queue").

    Takes any K and any batch: a batch larger than K leaves its last K keys. The queue starts with random unit
    vectors; `fill` says how much of it real keys have replaced.
    """

    keys: Tensor  # (K, C), rows of unit length
    pointer: Tensor  # int64 scalar: where the next key goes
    seen: Tensor  # int64 scalar: keys enqueued so far

    def __init__(self, size: int, dim: int, *, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("keys", unit_norm(torch.randn(size, dim, generator=generator)))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def look_up(self, keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positive keys (B, C) and the shared negatives (K, C) for a batch of keys (B, C)."""
        return keys, self.keys

    @torch.no_grad()
    def update(self, keys: Tensor, ids: Tensor) -> None:
        """Enqueue keys (B, C) of unit length and drop the oldest."""
        size = len(self.keys)
        skipped = max(0, len(keys) - size)  # these would be overwritten within this very call
        positions = torch.arange(skipped, len(keys), device=keys.device)
        self.keys[(self.pointer + positions) % size] = keys[skipped:].to(self.keys.dtype)
        self.pointer.copy_((self.pointer + len(keys)) % size)
        self.seen += len(keys)

    def fill(self) -> Tensor:
        """Return the share of the queue, from 0 to 1, that holds real keys."""
        return (self.seen / len(self.keys)).clamp(max=1.0)
