"""Momentum Contrast (arXiv 1911.05722), and its second version (arXiv 2003.04297) with an MLP head."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from mocosearch.distributed import Permutation, encode_in_groups, encode_shuffled, seeded_permutation
from mocosearch.methods.base import Method, Metrics
from mocosearch.methods.dictionaries import Queue
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, unit_norm


class MoCo(Method):
    """A query encoder learns to find each key, made by a slowly following key encoder, among a queue of old keys."""

    def __init__(
        self,
        encoder: ProjectedEncoder,
        dictionary: Queue,
        *,
        momentum: float,
        temperature: float,
        batch_norm_groups: int = 1,
        permutation: Permutation | None = None,
    ) -> None:
        super().__init__()
        self.query_encoder = encoder
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False)  # starts as a copy, receives no gradient
        self.dictionary = dictionary
        self.momentum = momentum
        self.temperature = temperature
        self.groups = batch_norm_groups
        self.permutation = permutation or seeded_permutation(seed=0)
        self.step = 0  # optimizer steps taken; a plain number, so that a GPU need not be asked for it
        self._new_keys: tuple[Tensor, Tensor] | None = None

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Follow algorithm 1 of the paper up to the loss."""
        query_view, key_view = views
        q = unit_norm(encode_in_groups(self.query_encoder, query_view, self.groups))  # (B, C)
        k = self.encode_keys(key_view)  # (B, C), no gradient
        k_positive, negatives = self.dictionary.look_up(k, ids)
        loss, logits = info_nce(q, k_positive, negatives, self.temperature)
        self._new_keys = (k, ids)
        accuracy = (logits.argmax(dim=1) == 0).to(loss.dtype).mean()
        return loss, {"accuracy": accuracy.detach(), "queue_fill": self.dictionary.fill()}

    @torch.no_grad()
    def encode_keys(self, images: Tensor) -> Tensor:
        """Encode keys (B, C) with shuffled batch norm (section 3.3); f_k's own forward passes feed its statistics."""
        order = self.permutation(self.step, len(images))
        return unit_norm(encode_shuffled(self.key_encoder, images, self.groups, order))

    @torch.no_grad()
    def after_step(self) -> None:
        """Update f_k by momentum (equation 2), then enqueue this step's keys and drop the oldest."""
        if self._new_keys is None:
            raise RuntimeError("after_step() follows forward(), once")
        follow(self.key_encoder, self.query_encoder, self.momentum)
        self.dictionary.update(*self._new_keys)
        self._new_keys = None
        self.step += 1

    def get_extra_state(self) -> dict[str, int]:
        """Return what the state dict carries besides tensors."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take back what `get_extra_state` gave."""
        self.step = state["step"]


@torch.no_grad()
def follow(key_encoder: torch.nn.Module, query_encoder: torch.nn.Module, momentum: float) -> None:
    """theta_k <- m theta_k + (1 - m) theta_q, over parameters only (equation 2)."""
    theta_k: list[Tensor] = list(key_encoder.parameters())
    theta_q: list[Tensor] = list(query_encoder.parameters())
    torch._foreach_mul_(theta_k, momentum)
    torch._foreach_add_(theta_k, theta_q, alpha=1 - momentum)
