"""Backbones, projection heads, and the query or key encoder that is one of each."""

import torch
import torchvision
from torch import Tensor, nn

from mocosearch.errors import BadRecipe

HEADS = ("linear", "mlp")


def backbone_names() -> list[str]:
    """Return the torchvision ResNets that `build_backbone` knows: resnet18 ... resnext and wide variants."""
    names: list[str] = torchvision.models.list_models(include=["resnet*", "resnext*", "wide_resnet*"])
    return names


def build_backbone(
    architecture: str, *, small_stem: bool = False, stem_padding: int = 1, stem_relu: bool = True
) -> nn.Module:
    """Build an untrained torchvision ResNet without its classifier: (B, 3, H, W) -> (B, `network.feature_dim`).

    `small_stem` is the usual change for images of some 32 pixels: a 3x3 first convolution of stride 1 and no
    max-pooling, so that the first stage sees the full resolution. Encoders of other projects pad it otherwise
    (solo-learn: 2) or have no ReLU behind it (lightly's own ResNet as its examples cut it).
    """
    if architecture not in backbone_names():
        raise BadRecipe(f"Unknown backbone '{architecture}'; known: {', '.join(backbone_names())}.")
    network = torchvision.models.get_model(architecture, weights=None)
    network.feature_dim = network.fc.in_features
    network.fc = nn.Identity()
    if small_stem:
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=stem_padding, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    if not stem_relu:
        network.relu = nn.Identity()  # the blocks have their own
    backbone: nn.Module = network
    return backbone


def feature_dim(backbone: nn.Module) -> int:
    """Return the length of a backbone's output vector."""
    dim = backbone.feature_dim
    assert isinstance(dim, int)
    return dim


def build_head(kind: str, feature_dim: int, out_dim: int) -> nn.Module:
    """Build a projection head (B, feature_dim) -> (B, out_dim): MoCo v1's linear layer or v2's two-layer MLP.

    The MLP has a hidden layer as wide as the feature and no batch norm (MoCo v2, section 2).
    """
    if kind == "linear":
        return nn.Linear(feature_dim, out_dim)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(feature_dim, feature_dim), nn.ReLU(), nn.Linear(feature_dim, out_dim))
    raise BadRecipe(f"Unknown projection head '{kind}'; known: {', '.join(HEADS)}.")


class ProjectedEncoder(nn.Module):
    """A backbone and its projection head: the f_q or f_k of the paper, before L2 normalization."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        """Map images (B, 3, H, W) to projections (B, C)."""
        projections: Tensor = self.head(self.backbone(images))
        return projections


def unit_norm(vectors: Tensor) -> Tensor:
    """L2-normalize the rows of (B, C), in float32 at least, whatever precision the network ran in."""
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    return nn.functional.normalize(vectors, dim=1)
