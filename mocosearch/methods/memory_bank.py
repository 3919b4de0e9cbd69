"""The memory bank (MoCo, section 3.2 and figure 2b; InstDisc, arXiv 1805.01978): a stored key for every image."""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from mocosearch.distributed import encode_in_groups
from mocosearch.methods.base import ContrastiveMethod, Metrics, accuracy
from mocosearch.methods.dictionaries import MemoryBank
from mocosearch.methods.info_nce import info_nce
from mocosearch.nets import ProjectedEncoder, unit_norm


class InstanceDiscrimination(ContrastiveMethod):
    """One encoder: a query is contrasted with what the bank remembers of its image and of K others."""

    views_per_image: ClassVar[int] = 1

    def __init__(
        self, encoder: ProjectedEncoder, dictionary: MemoryBank, *, temperature: float, batch_norm_groups: int = 1
    ) -> None:
        super().__init__()
        self.query_encoder = encoder
        self.dictionary = dictionary
        self.temperature = temperature
        self.groups = batch_norm_groups

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Contrast each query with the stored key of its image. No gradient reaches the bank."""
        (view,) = views
        q = unit_norm(encode_in_groups(self.query_encoder, view, self.groups))  # (B, C)
        k_positive, negatives = self.dictionary.look_up(q.detach(), ids)
        loss, logits = info_nce(q, k_positive, negatives, self.temperature)
        self._new_keys = [(q.detach(), ids)]
        return loss, {"accuracy": accuracy(logits)}
