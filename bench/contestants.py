"""Who takes part in train_step.py: the bare ceiling, mocosearch and lightly, each as a function that takes one step.

A step starts from augmented views on the device and ends with updated weights.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torchvision
from torch import Tensor, nn

from mocosearch.devices import autocast_dtype
from mocosearch.distributed import encode_in_groups
from mocosearch.methods import MoCo
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.build import build_method, build_optimizer
from mocosearch.training.trainer import Trainee

Step = Callable[[], None]
DIM = 128


@dataclass(frozen=True)
class Case:
    """What all contestants have in common."""

    name: str
    architecture: str
    size: int  # pixels
    batch: int
    keys: int  # K, the length of the queue
    groups: int = 1  # batch-norm groups; lightly on one device knows one

    def recipe(self) -> Recipe:
        """Return moco_v2 with this case's sizes."""
        return load_recipe(
            "moco_v2",
            [
                f"backbone.architecture={self.architecture}",
                f"method.queue={self.keys}",
                f"method.batch_norm_groups={self.groups}",
                f"views.crop={self.size}",
                f"batch={self.batch}",
            ],
        )

    def views(self, device: torch.device) -> list[Tensor]:
        """Return two views of a batch, contiguous float32."""
        generator = torch.Generator().manual_seed(0)
        shape = (self.batch, 3, self.size, self.size)
        return [torch.randn(shape, generator=generator).to(device) for _ in range(2)]


def channels_last(views: list[Tensor]) -> list[Tensor]:
    """Return the views as mocosearch's own loader hands them over."""
    return [view.contiguous(memory_format=torch.channels_last) for view in views]


def _moco(case: Case, device: torch.device) -> MoCo:
    method = build_method(case.recipe(), device, photos=case.keys + case.batch)
    assert isinstance(method, MoCo)
    return method.train()


def ceiling(case: Case, device: torch.device) -> Step:
    """Query forward and backward plus key forward in mocosearch's precision and layout: what no MoCo step can save.

    There is no queue, no contrastive loss, no optimizer and no momentum update.
    """
    method, dtype = _moco(case, device), autocast_dtype(device)
    query_view, key_view = channels_last(case.views(device))

    def step() -> None:
        method.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            q = encode_in_groups(method.query_encoder, query_view, case.groups)
            with torch.no_grad():
                encode_in_groups(method.key_encoder, key_view, case.groups)
        q.float().square().mean().backward()

    return step


def mocosearch(case: Case, device: torch.device, *, compiled: bool = False) -> Step:
    """The step that `mocosearch train` takes, with the recipe's optimizer and the device's precision."""
    method = _moco(case, device)
    if compiled:
        method.query_encoder.compile()
        method.key_encoder.compile()
    trainee = Trainee(method, build_optimizer(case.recipe(), method), autocast=autocast_dtype(device))
    views, ids = channels_last(case.views(device)), torch.arange(case.batch, device=device)

    def step() -> None:
        trainee.step(views, ids)

    return step


class LightlyMoCo(nn.Module):
    """MoCo v2 put together from lightly's parts in the way that its documentation's example shows.

    `backbone` gives `width` numbers for a picture.
    """

    def __init__(self, backbone: nn.Module, width: int) -> None:
        from lightly.models.modules import MoCoProjectionHead
        from lightly.models.utils import deactivate_requires_grad

        super().__init__()
        self.backbone = backbone
        self.projection_head = MoCoProjectionHead(width, width, DIM)
        self.backbone_momentum = copy.deepcopy(self.backbone)
        self.projection_head_momentum = copy.deepcopy(self.projection_head)
        deactivate_requires_grad(self.backbone_momentum)
        deactivate_requires_grad(self.projection_head_momentum)

    def forward(self, images: Tensor) -> Tensor:
        projections: Tensor = self.projection_head(self.backbone(images).flatten(start_dim=1))
        return projections

    def forward_momentum(self, images: Tensor) -> Tensor:
        keys: Tensor = self.projection_head_momentum(self.backbone_momentum(images).flatten(start_dim=1))
        return keys.detach()


def lightly(case: Case, device: torch.device, *, mixed: torch.dtype | None = None, compiled: bool = False) -> Step:
    """The training loop of lightly's MoCo example: float32, contiguous, SGD without momentum, one batch-norm group.

    `mixed` and `compiled` are what its ImageNet benchmark offers as --precision and --compile-model; autocast is what
    Lightning does for "bf16-mixed".
    """
    from lightly.loss import NTXentLoss
    from lightly.models.utils import update_momentum

    resnet = torchvision.models.get_model(case.architecture, weights=None)
    backbone = nn.Sequential(*list(resnet.children())[:-1])
    model = LightlyMoCo(backbone, resnet.fc.in_features).to(device).train()
    criterion = NTXentLoss(temperature=0.2, memory_bank_size=(case.keys, DIM)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06)
    forward, forward_momentum = model.forward, model.forward_momentum
    if compiled:
        forward, forward_momentum = torch.compile(forward), torch.compile(forward_momentum)
    query_view, key_view = case.views(device)

    def step() -> None:
        update_momentum(model.backbone, model.backbone_momentum, m=0.999)
        update_momentum(model.projection_head, model.projection_head_momentum, m=0.999)
        with torch.autocast(device.type, dtype=mixed, enabled=mixed is not None):
            loss = criterion(forward(query_view), forward_momentum(key_view))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
