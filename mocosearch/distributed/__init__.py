"""Training on several devices: ranks and what they exchange, shuffled batch norm, and how ranks are started."""

from mocosearch.distributed.ranks import (
    Permutation,
    encode_in_groups,
    encode_shuffled,
    gather,
    mean_over_ranks,
    on_first_rank,
    own_part,
    rank,
    seeded_permutation,
    world_size,
)

__all__ = [
    "Permutation",
    "encode_in_groups",
    "encode_shuffled",
    "gather",
    "mean_over_ranks",
    "on_first_rank",
    "own_part",
    "rank",
    "seeded_permutation",
    "world_size",
]
