"""The classifier of the protocol: a frozen backbone and, on its features, one linear layer."""

import copy
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mocosearch import randomness
from mocosearch.devices import autocast_dtype
from mocosearch.distributed import gather
from mocosearch.embed import Shares, cores_of_torch
from mocosearch.encoders import Encoder
from mocosearch.errors import NotFrozen
from mocosearch.methods import Method
from mocosearch.methods.base import Metrics

_STANDARD_DEVIATION = 0.01  # of the layer's first weights


class LinearClassifier(Method):
    """Softmax regression on the globally average-pooled features of a backbone that stays as it is.

    For the trainer it is a method as any other, whose images have labels. The backbone is in eval mode, so that batch
    norm uses its running statistics and does not change them, and runs in the device's precision; the layer and the
    loss are float32.
    """

    views_per_image: ClassVar[int] = 1
    labels: Tensor

    def __init__(self, encoder: Encoder, labels: Tensor, classes: int, *, seed: int) -> None:
        """`labels`, int64 (n,): the class of each image that is trained on, by its id."""
        super().__init__()
        self.encoder = encoder
        self.backbone = copy.deepcopy(encoder.network).to(memory_format=torch.channels_last)
        self.fc = nn.Linear(encoder.dim, classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(randomness.seed_of(seed))
            nn.init.normal_(self.fc.weight, std=_STANDARD_DEVIATION)
        nn.init.zeros_(self.fc.bias)
        self.register_buffer("labels", labels)
        self._at_once = Shares.of(encoder.device, encoder.preprocessing.crop, cores_of_torch(), None).batch
        self.to(encoder.device)

    def train(self, mode: bool = True) -> "LinearClassifier":
        """Stay in eval mode, whatever is asked for: a training mode is what the protocol forbids."""
        return super().train(False)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Map images (B, 3, H, W), normalized as the encoder's are, to features (B, dim) of any length."""
        dtype = autocast_dtype(images.device)
        with torch.autocast(images.device.type, dtype=dtype, enabled=dtype is not None):
            features = torch.cat([self.backbone(part) for part in torch.split(images, self._at_once)])
        return features.to(self.fc.weight.dtype)

    def forward(self, views: Sequence[Tensor], ids: Tensor) -> tuple[Tensor, Metrics]:
        """Return the mean cross-entropy over the images of all ranks, as this rank's share of it, and the accuracy.

        A rank's gradients count by how many images it has: the last batch of an epoch may not be the same for all.
        """
        (images,) = views
        labels = self.labels[ids.to(self.labels.device)]
        logits = self.fc(self.features(images.to(self.fc.weight.dtype)))
        a_rank = gather(torch.full((1,), float(len(ids)), device=logits.device)).mean()  # images, on average
        loss = F.cross_entropy(logits, labels, reduction="sum") / a_rank
        return loss, {"accuracy": (logits.argmax(dim=1) == labels).sum().detach() / a_rank}

    def after_step(self) -> None:
        """Nothing follows the update of the layer."""

    def check_frozen(self) -> None:
        """Raise NotFrozen unless every tensor of the backbone is, bit for bit, what the encoder's is."""
        before, after = self.encoder.network.state_dict(), self.backbone.state_dict()
        if changed := [name for name in before if not torch.equal(_bits(before[name]), _bits(after[name]))]:
            raise NotFrozen(
                f"The network changed while it was evaluated ({changed[0]}, {len(changed)} of {len(before)} tensors), "
                "so that the figure would not be the encoder's: use `eval linear --fast`, which runs it once."
            )


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8)
