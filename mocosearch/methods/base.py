"""What the trainer knows of a method."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn

from mocosearch.nets import ProjectedEncoder

Metrics = dict[str, Tensor]


class Method(nn.Module, ABC):
    """A self-supervised objective over views of images. Its state dict holds all that a resume needs."""

    query_encoder: ProjectedEncoder

    @abstractmethod
    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Return the loss, a scalar of at least float32, and metrics as detached scalar tensors.

        `views`: tensors (B, 3, H, W), one per augmentation of the same B images; `ids`: int64 (B,), the images'
        positions in the run's frozen list.
        """

    @abstractmethod
    def after_step(self) -> None:
        """Do what follows the optimizer's update of the query encoder: momentum update, then dictionary update."""
