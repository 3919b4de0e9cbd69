"""The end-to-end mechanism (MoCo, section 3.2 and figure 2a): keys of the same batch, trained by back-propagation."""

import copy
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from mocosearch.distributed import Permutation, encode_in_groups, encode_shuffled, world_size
from mocosearch.methods.base import ContrastiveMethod, Metrics, accuracy
from mocosearch.methods.dictionaries import InBatch
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, unit_norm


class EndToEnd(ContrastiveMethod):
    """Queries and keys are encoded by two networks, or by one with `shared_weights`; gradients reach both."""

    views_per_image: ClassVar[int] = 2

    def __init__(
        self,
        encoder: ProjectedEncoder,
        *,
        temperature: float,
        permutation: Permutation,
        shared_weights: bool = True,
        batch_norm_groups: int = 1,
    ) -> None:
        super().__init__()
        self.query_encoder = encoder
        self.key_encoder = encoder if shared_weights else copy.deepcopy(encoder)
        self.dictionary = InBatch()
        self.temperature = temperature
        self.permutation = permutation
        self.groups = batch_norm_groups

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Contrast each query with its key among the keys of all ranks' batches."""
        query_view, key_view = views
        q = unit_norm(encode_in_groups(self.query_encoder, query_view, self.groups))  # (B, C)
        order = self.permutation(self.step, len(ids) * world_size())
        k = unit_norm(encode_shuffled(self.key_encoder, key_view, self.groups, order))  # (B, C), with gradient
        k_positive, negatives = self.dictionary.look_up(k, ids)
        loss, logits = info_nce(q, k_positive, negatives, self.temperature)
        self._new_keys = [(k.detach(), ids)]
        return loss, {"accuracy": accuracy(logits)}
