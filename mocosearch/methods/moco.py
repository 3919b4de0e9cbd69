"""Momentum Contrast (arXiv 1911.05722), and its second version (arXiv 2003.04297) with an MLP head."""

import copy
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from mocosearch.distributed import Permutation, encode_in_groups, encode_shuffled, world_size
from mocosearch.methods.base import ContrastiveMethod, Metrics, accuracy
from mocosearch.methods.dictionaries import Queue
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, unit_norm


class MoCo(ContrastiveMethod):
    """A query encoder learns to find each key, made by a slowly following key encoder, among a queue of old keys.

    `symmetric` (not in the papers; in the authors' CIFAR demo): both views are queries once and keys once.
    """

    views_per_image: ClassVar[int] = 2
    dictionary: Queue

    def __init__(
        self,
        encoder: ProjectedEncoder,
        dictionary: Queue,
        *,
        momentum: float,
        temperature: float,
        permutation: Permutation,
        batch_norm_groups: int = 1,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        self.query_encoder = encoder
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)  # starts as a copy, receives no gradient
        self.dictionary = dictionary
        self.momentum = momentum
        self.temperature = temperature
        self.permutation = permutation
        self.groups = batch_norm_groups
        self.symmetric = symmetric

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Follow algorithm 1 of the paper up to the loss."""
        first, second = views
        loss, logits, keys = self.contrast(first, second, ids)
        self._new_keys = [(keys, ids)]
        if self.symmetric:
            other_loss, other_logits, other_keys = self.contrast(second, first, ids)
            loss, logits = (loss + other_loss) / 2, torch.cat([logits, other_logits])
            self._new_keys.append((other_keys, ids))
        return loss, {"accuracy": accuracy(logits), "queue_fill": self.dictionary.fill()}

    def contrast(self, query_view: Tensor, key_view: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, logits (B, 1 + K) and keys (B, C) for queries from one view and keys from the other."""
        q = unit_norm(encode_in_groups(self.query_encoder, query_view, self.groups))  # (B, C)
        k = self.encode_keys(key_view)  # (B, C), no gradient
        k_positive, negatives = self.dictionary.look_up(k, ids)
        loss, logits = info_nce(q, k_positive, negatives, self.temperature)
        return loss, logits, k

    @torch.no_grad()
    def encode_keys(self, images: Tensor) -> Tensor:
        """Encode keys (B, C) with shuffled batch norm (section 3.3); f_k's own forward passes feed its statistics."""
        order = self.permutation(self.step, len(images) * world_size())
        return unit_norm(encode_shuffled(self.key_encoder, images, self.groups, order))

    @torch.no_grad()
    def after_step(self) -> None:
        """Update f_k by momentum (equation 2), then enqueue this step's keys and drop the oldest."""
        follow(self.key_encoder, self.query_encoder, self.momentum)
        super().after_step()


@torch.no_grad()
def follow(key_encoder: torch.nn.Module, query_encoder: torch.nn.Module, momentum: float) -> None:
    """theta_k <- m theta_k + (1 - m) theta_q, over parameters only (equation 2)."""
    theta_k: list[Tensor] = list(key_encoder.parameters())
    theta_q: list[Tensor] = list(query_encoder.parameters())
    torch._foreach_lerp_(theta_k, theta_q, 1 - momentum)  # reads and writes each number once
