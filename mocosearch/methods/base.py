"""What the trainer knows of a method."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from mocosearch.nets import ProjectedEncoder

Metrics = dict[str, Tensor]


class Method(nn.Module, ABC):
    """A self-supervised objective over views of images. Its state dict holds all that a resume needs."""

    views_per_image: ClassVar[int]
    query_encoder: ProjectedEncoder

    @abstractmethod
    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Return the loss, a scalar of at least float32, and metrics as detached scalar tensors.

        `views`: `views_per_image` tensors (B, 3, H, W), augmentations of this rank's B images; `ids`: int64 (B,), the
        images' positions in the run's frozen list.
        """

    @abstractmethod
    def after_step(self) -> None:
        """Do what follows the optimizer's update of the query encoder, such as the update of the dictionary."""


class Dictionary(Protocol):
    """What queries are compared with."""

    def look_up(self, keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return positives (B, C), and negatives (K, C) shared by all queries or (B, K, C) of each."""

    def update(self, keys: Tensor, ids: Tensor) -> None:
        """Take in a batch's keys (B, C) once the optimizer has stepped."""


class ContrastiveMethod(Method):
    """A method whose queries are compared with keys in a dictionary, and which counts its steps."""

    dictionary: Dictionary
    step: int = 0  # optimizer steps taken; a plain number, so that a GPU need not be asked for it

    def __init__(self) -> None:
        super().__init__()
        self._new_keys: list[tuple[Tensor, Tensor]] = []  # of this step, with their images' ids

    def take_new_keys(self) -> list[tuple[Tensor, Tensor]]:
        """Return the (keys, ids) of the step that ends, and count it."""
        if not self._new_keys:
            raise RuntimeError("after_step() follows forward(), once")
        keys, self._new_keys = self._new_keys, []
        self.step += 1
        return keys

    @torch.no_grad()
    def after_step(self) -> None:
        """Give this step's keys to the dictionary."""
        for keys, ids in self.take_new_keys():
            self.dictionary.update(keys, ids)

    def get_extra_state(self) -> dict[str, int]:
        """Return what the state dict carries besides tensors."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take back what `get_extra_state` gave."""
        self.step = state["step"]


def accuracy(logits: Tensor) -> Tensor:
    """Return the share of queries, logits (B, 1 + K), that are nearer to their key than to any negative."""
    return (logits.argmax(dim=1) == 0).to(logits.dtype).mean().detach()
