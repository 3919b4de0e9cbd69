"""A batch that does not fit into memory ends a training with one line, and no other error is taken for that."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from mocosearch.errors import OutOfMemory
from mocosearch.methods import Method
from mocosearch.training.trainer import Trainee

VIEWS, IDS = [torch.zeros(4, 3, 8, 8)] * 2, torch.arange(4)


class Hungry(Method):
    """Fails as torch does: needs more memory than any machine has, or shapes that do not fit."""

    def __init__(self, wrong_shapes: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.wrong_shapes = wrong_shapes

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.wrong_shapes:
            return self.weight @ torch.zeros(4), {}
        return torch.empty(2**46).sum(), {}

    def after_step(self) -> None:
        raise AssertionError("there was no step")


def trainee(method: Method) -> Trainee:
    return Trainee(method, torch.optim.SGD(method.parameters(), lr=0.1), autocast=None)


def test_a_batch_that_does_not_fit_is_one_line_that_names_the_way_out() -> None:
    with pytest.raises(OutOfMemory, match=r"batch of 4: close other programs, .*--set batch=") as caught:
        trainee(Hungry()).step(VIEWS, IDS)
    assert "\n" not in str(caught.value)


def test_another_error_is_not_taken_for_a_lack_of_memory() -> None:
    with pytest.raises(RuntimeError, match="size"):
        trainee(Hungry(wrong_shapes=True)).step(VIEWS, IDS)
