"""The form of a network that photos go through gives the vectors of the plain one, and goes on when memory is short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mocosearch.encoders import Preprocessing
from mocosearch.encoders.inference import Inference, folded, worth_compiling
from mocosearch.errors import OutOfMemory
from mocosearch.nets import build_backbone

CPU = torch.device("cpu")
SMALL = Preprocessing(resize=40, crop=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
PICTURES = 5


def network(architecture: str = "resnet18", **stem: bool) -> nn.Module:
    """A network whose batch norms have statistics, scales and shifts as after a training."""
    torch.manual_seed(0)
    built = build_backbone(architecture, **stem).eval().requires_grad_(False)
    for module in built.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = torch.randn(module.num_features) / 4
            module.running_var = torch.rand(module.num_features) + 0.5
            module.weight.copy_(torch.rand(module.num_features) / 2 + 0.5)
            module.bias.copy_(torch.randn(module.num_features) / 4)
    return built


def pixels(count: int = PICTURES) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    coarse = torch.rand(count, 3, 4, 4, generator=draw)
    return (nn.functional.interpolate(coarse, size=SMALL.crop, mode="bicubic").clamp(0, 1) * 255).to(torch.uint8)


def cosines(features: Tensor, plain: nn.Module) -> Tensor:
    """Compare with the network as it is, in float64, and the normalization of the textbook."""
    mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (SMALL.mean, SMALL.std))
    expected = plain.double()((pixels(len(features)).double() / 255 - mean) / std)
    return nn.functional.cosine_similarity(features.double(), expected)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize(
    ("architecture", "stem"),
    [
        ("resnet18", {}),
        ("resnet18", {"small_stem": True, "stem_relu": False}),
        ("resnet50", {}),
        ("resnext50_32x4d", {}),
    ],
)
def test_vectors_are_those_of_the_plain_network(
    architecture: str, stem: dict[str, bool], dtype: torch.dtype | None
) -> None:
    plain = network(architecture, **stem)
    features = Inference(plain, SMALL, CPU, dtype)(pixels())
    assert (features.dtype, len(features)) == (torch.float32, PICTURES)
    assert cosines(features, plain).min() > (0.999 if dtype else 0.999999)


def test_no_batch_norm_is_left_and_the_network_itself_is_as_before() -> None:
    plain = network("resnet50")
    before = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    for dtype in (None, torch.bfloat16):
        Inference(plain, SMALL, CPU, dtype)(pixels())
    assert not [module for module in folded(plain).modules() if isinstance(module, nn.BatchNorm2d)]
    after = plain.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert {tensor.dtype for tensor in plain.parameters()} == {torch.float32}


class Other(nn.Module):
    """A network that is no ResNet, although its layers are called as in one: its norm comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(3)
        self.layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.LayerNorm([8, 28, 28]), nn.Flatten(), nn.Linear(6272, 4))
        self.bn1.running_mean = torch.tensor([0.5, -0.5, 1.0])
        self.bn1.running_var = torch.tensor([0.1, 4.0, 1.0])

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(self.conv1(self.bn1(images)))
        return features


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_network_that_is_no_resnet_is_run_as_it_is(dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    plain = Other().eval().requires_grad_(False)
    assert cosines(Inference(plain, SMALL, CPU, dtype)(pixels()), plain).min() > (0.999 if dtype else 0.999999)


class Hungry(nn.Module):
    """Needs more memory than any machine has, as soon as it sees more than `most` pictures at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.seen: list[int] = []

    def __deepcopy__(self, memo: object) -> "Hungry":
        return self  # so that `seen` can be looked at

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(len(images))
        torch.empty(2**46 if len(images) > self.most else 1)
        return images.mean(dim=(2, 3))


def test_when_memory_runs_out_the_batch_is_halved_for_good() -> None:
    hungry = Hungry(most=2)
    inference = Inference(hungry, SMALL, CPU, None)
    features = inference(pixels(9))
    assert hungry.seen == [9, 4, 2, 2, 2, 2, 1]
    expected = Hungry(most=9)
    assert torch.allclose(features, Inference(expected, SMALL, CPU, None)(pixels(9)))
    hungry.seen.clear()
    inference(pixels(5))
    assert hungry.seen == [2, 2, 1]


def test_a_single_picture_that_does_not_fit_is_one_line() -> None:
    with pytest.raises(OutOfMemory, match="single picture: close other programs, or use a smaller network") as caught:
        Inference(Hungry(most=0), SMALL, CPU, None)(pixels(3))
    assert "\n" not in str(caught.value)


class Faulty(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images @ images.new_zeros(5, 5)


def test_an_error_that_is_not_about_memory_is_not_swallowed() -> None:
    with pytest.raises(RuntimeError, match="batch2 tensor"):
        Inference(Faulty(), SMALL, CPU, None)(pixels())


def test_a_large_job_in_bfloat16_on_a_cpu_is_compiled_and_no_other() -> None:
    assert worth_compiling(4000, 224, CPU, torch.bfloat16)
    assert not worth_compiling(4000, 64, CPU, torch.bfloat16)
    assert not worth_compiling(3999, 224, CPU, torch.bfloat16)
    assert not worth_compiling(1_000_000, 224, CPU, None)
    assert not worth_compiling(1_000_000, 224, torch.device("cuda"), torch.bfloat16)


def shallow() -> nn.Module:
    """A ResNet with half of its blocks, which takes half as long to compile."""
    plain = network(small_stem=True)
    plain.layer3, plain.layer4 = nn.Identity(), nn.Identity()
    return plain


def test_compiled_vectors_are_those_of_the_plain_network_for_every_batch() -> None:
    plain = shallow()
    inference = Inference(plain, SMALL, CPU, torch.bfloat16)
    if not inference.compile(3):
        pytest.skip("there is no C++ compiler here")
    for count in range(5):
        assert torch.all(cosines(inference(pixels(count)), plain) > 0.999)


def test_without_a_compiler_it_runs_uncompiled(tmp_path: Path) -> None:
    code = (
        "import torch; from tests.encoders.test_inference import *;"
        "inference = Inference(shallow(), SMALL, CPU, None);"
        "before = inference(pixels(2)); worked = inference.compile(2);"
        "print(worked, torch.equal(inference(pixels(2)), before))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environment |= {
        "PATH": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
