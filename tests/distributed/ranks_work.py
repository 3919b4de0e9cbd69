"""What the ranks of tests/distributed do; each function runs in every rank and returns rank 0's result."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from mocosearch.distributed import (
    gather,
    mean_over_ranks,
    on_first_rank,
    own_part,
    rank,
    seeded_permutation,
    world_size,
)
from mocosearch.errors import NoPhotos, TrainingStopped
from mocosearch.methods import EndToEnd, InstanceDiscrimination, MoCo
from mocosearch.methods.base import ContrastiveMethod
from mocosearch.methods.dictionaries import MemoryBank, Queue
from mocosearch.nets import ProjectedEncoder
from mocosearch.training.prepare import new_run
from mocosearch.training.trainer import Trainee
from tests.methods.reference import BATCH, STEPS, l2_norm, reference_method, reference_optimizer, views
from tests.training.photos import load_tiny_recipe

IMAGES, BATCH_SMALL, DIM = 40, 12, 5


Parity = list[tuple[list[float], float, dict[str, Tensor]]]  # of each rank, as `parity` says
Trained = tuple[list[float], list[dict[str, Tensor]]]


def parities(versions: Sequence[str]) -> dict[str, Parity]:
    """Train the reference case of each version."""
    return {version: parity(version) for version in versions}


def parity(version: str) -> Parity:
    """Train the reference case and return, of each rank, losses, key norm before the last update, and state."""
    torch.set_num_threads(1)
    method = reference_method(version, groups=1)
    trainee = Trainee(method, reference_optimizer(method), autocast=None)
    losses, own = [], own_part(BATCH // world_size())
    for step in range(STEPS):
        key_norm = l2_norm(method.key_encoder)
        loss, _ = trainee.step([view[own] for view in views(step)], torch.arange(BATCH)[own])
        losses.append(loss.item())
    return _of_all_ranks((losses, key_norm, method.state_dict()))


def small_method(kind: str, groups: int) -> ContrastiveMethod:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    encoder = ProjectedEncoder(backbone, nn.Linear(8, DIM)).double()
    options = {"temperature": 0.2, "batch_norm_groups": groups}
    shuffle = {"permutation": seeded_permutation(1)}
    if kind == "moco":
        return MoCo(encoder, Queue(30, DIM).double(), momentum=0.9, symmetric=True, **options, **shuffle)
    if kind == "memory_bank":
        bank = MemoryBank(IMAGES, DIM, negatives=16, momentum=0.5).double()
        return InstanceDiscrimination(encoder, bank, **options)
    return EndToEnd(encoder, shared_weights=kind == "end_to_end", **options, **shuffle)


def train_each_small(kinds: Sequence[str], steps: int, groups: int) -> dict[str, Trained]:
    """Train a small method of each kind."""
    return {kind: train_small(kind, steps, groups) for kind in kinds}


def train_small(kind: str, steps: int, groups: int) -> Trained:
    """Train a small method in float64; return the losses over all ranks and each rank's state."""
    method = small_method(kind, groups)
    trainee = Trainee(method, torch.optim.SGD(method.parameters(), lr=0.1, momentum=0.9), autocast=None)
    losses, own = [], own_part(BATCH_SMALL // world_size())
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        ids = torch.randperm(IMAGES, generator=generator)[:BATCH_SMALL][own]
        shape = (BATCH_SMALL, 3, 8, 8)
        images = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(method.views_per_image)]
        loss, _ = trainee.step([view[own] for view in images], ids)
        losses += mean_over_ranks([loss])
    return losses, _of_all_ranks(method.state_dict())


def exchange() -> dict[str, object]:
    """Try the exchanges themselves."""
    own = torch.tensor([[10.0 * rank()], [10.0 * rank() + 1]], requires_grad=True)
    everyone = gather(own)
    weights = torch.arange(1.0, len(everyone) + 1)[:, None] * (rank() + 1)
    (everyone * weights).sum().backward()
    assert own.grad is not None
    try:
        on_first_rank(_no_photos)
    except NoPhotos as error:
        refused = str(error)
    return {
        "gathered": everyone.flatten().tolist(),
        "gradients": [grad.flatten().tolist() for grad in _of_all_ranks(own.grad)],
        "mean": mean_over_ranks([torch.tensor(float(rank())), torch.tensor(2.0)]),
        "told": _of_all_ranks(on_first_rank(lambda: f"from rank {rank()}")),
        "refused": _of_all_ranks(refused),
    }


def start_over(roots: list[Path], folder: Path) -> list[str]:
    """Start a run over each rank's own disk and return what every rank says against it."""
    recipe = load_tiny_recipe()
    try:
        new_run(
            roots[rank()],
            recipe,
            recipe_name="demo",
            folder=folder / "run",
            minutes=None,
            pack_folder=folder / f"pack{rank()}",
        )
    except TrainingStopped as error:
        return _of_all_ranks(str(error))
    return _of_all_ranks("")


def fail_on_one() -> None:
    """Fail unexpectedly on one rank while the others wait for it."""
    if rank() == 1:
        raise ZeroDivisionError("a mistake")
    dist.barrier()


def fingerprint(state: dict[str, Tensor], *, but: str) -> str:
    """Hash all tensors of a state but those whose name holds `but`."""
    digest = hashlib.sha256()
    for name, tensor in state.items():
        if isinstance(tensor, Tensor) and but not in name:
            digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def _no_photos() -> None:
    raise NoPhotos("none here")


def _of_all_ranks(value: Any) -> list[Any]:
    values = [value] * world_size()
    if world_size() > 1:
        dist.all_gather_object(values, value)
    return values
