"""What the trainer knows of a method."""

from collections.abc import Sequence

from torch import Tensor, nn

from mocosearch.nets import ProjectedEncoder

Metrics = dict[str, Tensor]


class Method(nn.Module):
    """A self-supervised objective over views of images; everything that has to survive a resume is in its state dict."""

    query_encoder: ProjectedEncoder

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Return the loss, a scalar of at least float32, and metrics as detached scalar tensors.

        `views`: tensors (B, 3, H, W), one per augmentation of the same B images; `ids`: int64 (B,), the images'
        positions in the run's frozen list.
        """
        raise NotImplementedError  # pragma: no cover

    def after_step(self) -> None:
        """Do what follows the optimizer's update of the query encoder: momentum update, then dictionary update."""
        raise NotImplementedError  # pragma: no cover

    def chance_loss(self) -> float:
        """Return the loss of a query encoder that guesses, so that a person can tell learning from noise."""
        raise NotImplementedError  # pragma: no cover
