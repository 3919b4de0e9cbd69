"""What else one could do with the same minutes: lightly's MoCo v2, and training with the labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.contestants import DIM, LightlyMoCo
from bench.evidence.cases import Case
from bench.evidence.ours import Trained
from bench.evidence.plan import Planned
from bench.evidence.timed import Batch, Stateful, TimedRun
from mocosearch.encoders import Encoder, EncoderCard, new_network
from mocosearch.nets import feature_dim
from mocosearch.recipes import Recipe, load_recipe
from mocosearch.training.build import preprocessing_of
from mocosearch.training.monitor import Probe
from mocosearch.training.prepare import new_run

CPU = torch.device("cpu")
_BATCH, _KEYS = 256, 4096
_LIGHTLY_LR = 0.06


@dataclass
class Peer(Generic[Batch]):
    """What trains beside us, for `TimedRun`."""

    recipe: Recipe
    batch: int
    lr: float
    warmup: float
    optimizer: torch.optim.Optimizer
    parts: dict[str, Stateful]
    batches: Callable[[int], Iterator[Batch]]
    step: Callable[[Batch], Tensor]
    encoder: Callable[[], Encoder]  # as it is now


def train(planned: Planned, case: Case, probe: Path, runs: Path) -> Trained:
    """Train for the planned wall time, and write the encoder; what was interrupted goes on."""
    folder = runs / planned.name
    folder.mkdir(parents=True, exist_ok=True)
    peer = _PEERS[planned.kind](planned, case, folder)
    photos = Probe.read(probe, preprocessing_of(peer.recipe))
    run = TimedRun(
        folder / "checkpoint.pt",
        planned.minutes,
        peer.parts,
        peer.optimizer,
        peer.lr,
        peer.step,
        look=lambda: photos.accuracy(peer.encoder()),
        warmup=peer.warmup,
    )
    run.run(peer.batches)
    peer.encoder().save(folder / "encoder")
    facts = {"steps": run.steps, "photos seen": run.steps * peer.batch, "minutes of steps": round(run.spent / 60, 2)}
    return Trained(folder / "encoder", facts, run.curve)


@dataclass
class _MemoryBank:
    """The keys of lightly's loss and where the next come, which its state_dict leaves out."""

    module: nn.Module

    def state_dict(self) -> dict[str, Any]:
        return {name: self.module.get_buffer(name) for name in ("bank", "bank_ptr")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, tensor in state_dict.items():
            self.module.get_buffer(name).copy_(tensor)


def lightly(planned: Planned, case: Case, folder: Path) -> Peer[list[Tensor]]:
    """Train MoCo v2 of lightly's parts with the settings of lightly's own tutorial on small images (CIFAR-10).

    SGD 0.06, momentum 0.9, weight decay 5e-4, T 0.1, K 4096, m 0.99, no blur; a batch of 256 for its 512, which
    serves short runs. The network is that of our recipe; the tutorial's ResNet-18 with a larger first stage would
    take some twenty times as long a step. Its batch norm in 8 groups with shuffled keys is left out, as in our recipe.
    """
    from lightly.data import LightlyDataset
    from lightly.loss import NTXentLoss
    from lightly.models.utils import update_momentum
    from lightly.transforms import MoCoV2Transform

    torch.manual_seed(planned.seed)
    recipe = load_recipe(planned.recipe, planned.overrides)
    crop = recipe.views.crop
    backbone = new_network(recipe.backbone)
    model = LightlyMoCo(backbone, feature_dim(backbone)).train()
    criterion = NTXentLoss(temperature=0.1, memory_bank_size=(_KEYS, DIM))
    optimizer = torch.optim.SGD(model.parameters(), lr=_LIGHTLY_LR, momentum=0.9, weight_decay=5e-4)
    data = LightlyDataset(str(case.train), transform=MoCoV2Transform(input_size=crop, gaussian_blur=0.0))
    batch = min(_BATCH, len(data) // 2)
    loader = torch.utils.data.DataLoader(
        data, batch_size=batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True
    )

    def batches(first: int) -> Iterator[list[Tensor]]:
        torch.manual_seed(planned.seed + first)  # lightly's order is not one of steps: after a stop it is another
        while True:
            for views, _, _ in loader:
                yield views

    def step(views: list[Tensor]) -> Tensor:
        query_view, key_view = views
        update_momentum(model.backbone, model.backbone_momentum, m=0.99)
        update_momentum(model.projection_head, model.projection_head_momentum, m=0.99)
        loss: Tensor = criterion(model(query_view), model.forward_momentum(key_view))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    queue = _MemoryBank(criterion.memory_bank)
    parts: dict[str, Stateful] = {"model": model, "queue": queue, "optimizer": optimizer}
    return Peer(
        recipe, batch, _LIGHTLY_LR, 0.0, optimizer, parts, batches, step, lambda: _copied(recipe, backbone, "lightly")
    )


def _supervised(planned: Planned, case: Case, folder: Path) -> Peer[tuple[list[Tensor], Tensor]]:
    """Train the same network by cross-entropy on the labels, with our recipe's views, optimizer and batch."""
    recipe = load_recipe(planned.recipe, planned.overrides)
    source = new_run(case.train, recipe, recipe_name=planned.recipe, folder=folder / "photos", minutes=None, steps=1)
    folders = [photo.stamp.path.rpartition(b"/")[0] for photo in source.batches.photos]
    numbers = {name: number for number, name in enumerate(sorted(set(folders)))}
    labels = torch.tensor([numbers[name] for name in folders])
    torch.manual_seed(planned.seed)
    backbone = new_network(recipe.backbone).to(memory_format=torch.channels_last).train()
    classifier = nn.Linear(feature_dim(backbone), len(numbers))
    model = nn.Sequential(backbone, classifier)
    options = recipe.optimizer
    lr = options.lr * recipe.batch / options.lr_batch
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=options.weight_decay, fused=True)

    def batches(first: int) -> Iterator[tuple[list[Tensor], Tensor]]:
        step = first
        while True:
            yield source.batches(step)
            step += 1

    def step(batch: tuple[list[Tensor], Tensor]) -> Tensor:
        views, ids = batch
        loss = F.cross_entropy(model(torch.cat(views)), labels[ids].repeat(len(views)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    parts: dict[str, Stateful] = {"model": model, "optimizer": optimizer}
    warmup = recipe.schedule.warmup
    return Peer(
        recipe,
        recipe.batch,
        lr,
        warmup,
        optimizer,
        parts,
        batches,
        step,
        lambda: _copied(recipe, backbone, "supervised"),
    )


def _copied(recipe: Recipe, backbone: nn.Module, how: str) -> Encoder:
    """Return the backbone as it is now, as an encoder."""
    copied = new_network(recipe.backbone)
    copied.load_state_dict(backbone.state_dict())
    named = recipe.backbone
    card = EncoderCard(named.architecture, named.small_stem, None, "the same photos", 0, None, how, "")
    return Encoder(copied, card, preprocessing_of(recipe), CPU)


_PEERS: dict[str, Callable[[Planned, Case, Path], Peer[Any]]] = {"lightly": lightly, "supervised": _supervised}
