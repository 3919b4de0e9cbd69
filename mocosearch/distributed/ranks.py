"""Ranks, what they exchange, and batch norm over the part of a batch that one rank sees.

One process may stand for several ranks: it splits its batch into groups, each normalized by its own statistics, as
each rank would (MoCo, section 3.3, "Shuffling BN"). Without a process group there is one rank.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.nn.functional import all_gather as all_gather_with_gradient

from mocosearch import randomness
from mocosearch_index.errors import MocosearchError

Result = TypeVar("Result")
Encode = Callable[[Tensor], Tensor]
Permutation = Callable[[int, int], Tensor]  # (step, batch of all ranks) -> int64 (batch,)


def rank() -> int:
    """Return the number of this process among the ranks."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Return how many ranks train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def gather(tensor: Tensor) -> Tensor:
    """Return all ranks' (B, ...) tensors as one (ranks * B, ...), in the order of ranks, the same on every rank.

    A tensor that requires a gradient gets one from every rank that uses it.
    """
    if world_size() == 1:
        return tensor
    tensor = tensor.contiguous()
    if torch.is_grad_enabled() and tensor.requires_grad:
        return torch.cat(all_gather_with_gradient(tensor))  # type: ignore[no-untyped-call]
    parts = [torch.empty_like(tensor) for _ in range(world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


def own_part(batch: int) -> slice:
    """Return where this rank's `batch` rows lie in what `gather` returns."""
    return slice(rank() * batch, (rank() + 1) * batch)


def mean_over_ranks(values: Sequence[Tensor]) -> list[float]:
    """Return the mean over ranks of each scalar tensor, the same on every rank, in one exchange."""
    stacked = torch.stack([value.detach().double() for value in values])
    if world_size() > 1:
        dist.all_reduce(stacked)
        stacked /= world_size()
    numbers: list[float] = stacked.tolist()
    return numbers


def on_first_rank(work: Callable[[], Result]) -> Result:
    """Do `work` on rank 0 while the others wait, and return its result, or raise its MocosearchError, on all."""
    outcome: list[Any] = [None]
    if rank() == 0:
        try:
            outcome = [work()]
        except MocosearchError as error:
            outcome = [error]
    if world_size() > 1:
        dist.broadcast_object_list(outcome)
    if isinstance(outcome[0], MocosearchError):
        raise outcome[0]
    result: Result = outcome[0]
    return result


def encode_in_groups(encode: Encode, images: Tensor, groups: int) -> Tensor:
    """Encode (B, ...) in `groups` consecutive parts of equal size; batch norm sees one part at a time."""
    if groups == 1:
        return encode(images)
    if len(images) % groups:
        raise ValueError(f"a batch of {len(images)} cannot be split into {groups} equal batch-norm groups")
    return torch.cat([encode(part) for part in images.chunk(groups)])


def encode_shuffled(encode: Encode, images: Tensor, groups: int, permutation: Tensor) -> Tensor:
    """Encode (B, ...) so that keys share their batch norm with other images than their queries do.

    All ranks' images are gathered and permuted (`permutation` is over all of them and the same on every rank), each
    rank encodes its slice in `groups`, and the outputs (B, C) go back to the ranks and places of their images. So the
    statistics do not give away which key is the positive.
    """
    if groups == 1 and world_size() == 1:
        return encode(images)  # one group holds the whole batch in any order
    order = permutation.to(images.device, non_blocking=True)  # the GPU is still at work on the queries
    own = own_part(len(images))
    encoded = encode_in_groups(encode, gather(images)[order[own]], groups)
    return gather(encoded)[order.argsort()[own]]


def seeded_permutation(seed: int) -> Permutation:
    """Return the permutation of a step as a pure function of (seed, step): the same after a resume, on every rank."""

    def permutation(step: int, batch: int) -> Tensor:
        return torch.from_numpy(randomness.permutation(seed, step, size=batch))

    return permutation
