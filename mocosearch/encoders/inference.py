"""A network in the fastest form that its device has: batch norm folded, channels last, reduced precision, compiled.

The network that an encoder was made of stays as it is, for its fingerprint and for saving. This one has modules of its
own and shares with it the tensors that are the same.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models import ResNet

from mocosearch.devices import is_out_of_memory
from mocosearch.encoders.card import Preprocessing
from mocosearch.errors import OutOfMemory

Network = Callable[[Tensor], Tensor]

# Compiling takes some 15 s and then saves some 7 ms a photo of 224 pixels (ResNet-50, a CPU with bfloat16).
_PIXELS_WORTH_COMPILING = 4000 * 224**2


def worth_compiling(photos: int, crop: int, device: torch.device, dtype: torch.dtype | None) -> bool:
    """Tell whether torch.compile pays for so many photos of `crop` pixels a side: a fixed rule, nothing is measured.

    In float32 a compiled ResNet is hardly faster than an eager one, and on a GPU it is the decoding that is waited for.
    """
    return device.type == "cpu" and dtype is not None and photos * crop**2 >= _PIXELS_WORTH_COMPILING


class Inference:
    """Pixels in, features out. Several threads may use it at once."""

    def __init__(
        self, network: nn.Module, preprocessing: Preprocessing, device: torch.device, dtype: torch.dtype | None
    ) -> None:
        """Take a network in eval mode on `device`; `dtype`: what convolutions and products run in, None: float32."""
        self.dtype = dtype
        self._device, self._crop = device, preprocessing.crop
        self._network = _in_precision(folded(network), dtype).to(memory_format=torch.channels_last)
        self._compiled: tuple[int, Network] | None = None  # the batch that it is for
        self._most = 2**31  # pictures that go through the network at once: halved when memory runs out
        # (x / 255 - mean) / std as one multiplication and one addition
        mean, std = (torch.tensor(value).view(1, 3, 1, 1) for value in (preprocessing.mean, preprocessing.std))
        self._scale, self._shift = (1 / (255 * std)).to(device), (-mean / std).to(device)

    def compile(self, batch: int) -> bool:
        """Compile for batches of `batch` pictures; tell whether it worked: without a C++ compiler it does not.

        A batch that is somewhat smaller is filled up; one of another size runs as before.
        """
        # Frozen: weights are constants, laid out once as the convolutions want them.
        compiled = torch.compile(self._network, dynamic=False, options={"freezing": True})
        try:
            self._features(compiled, torch.zeros(batch, 3, self._crop, self._crop, dtype=torch.uint8))
        except RuntimeError:  # of which all failures of torch.compile are
            return False
        self._compiled = batch, compiled
        return True

    def __call__(self, pixels: Tensor) -> Tensor:
        """Map uint8 (B, 3, crop, crop) on the CPU to float32 (B, dim) on the CPU.

        When memory runs out it goes on with half as many pictures at once, from then on; OutOfMemory when a single
        one does not fit.
        """
        while True:
            most = min(self._most, len(pixels))
            try:
                return torch.cat([self._run(part) for part in torch.split(pixels, self._most)])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Out here the frames that failed, and so their tensors, are gone.
            if most == 1:
                raise OutOfMemory(
                    f"There is not enough memory on the device '{self._device}' to embed a single picture: close other "
                    "programs, or use a smaller network."
                )
            self._most = min(self._most, most // 2)
            if self._device.type == "cuda":
                torch.cuda.empty_cache()

    def _run(self, pixels: Tensor) -> Tensor:
        """Choose the compiled network where the batch is, or nearly is, the one that it is for."""
        if self._compiled is not None:
            batch, compiled = self._compiled
            if batch // 2 < len(pixels) <= batch:
                filling = pixels.new_zeros(batch - len(pixels), *pixels.shape[1:])
                return self._features(compiled, torch.cat([pixels, filling]))[: len(pixels)]
        return self._features(self._network, pixels)

    @torch.inference_mode()
    def _features(self, network: Network, pixels: Tensor) -> Tensor:
        if self._device.type == "cuda":
            pixels = pixels.pin_memory().to(self._device, non_blocking=True)
        images = pixels.contiguous(memory_format=torch.channels_last) * self._scale + self._shift
        with torch.autocast(self._device.type, dtype=self.dtype, enabled=self.dtype is not None):
            features = network(images)
        return features.float().cpu()


def folded(network: nn.Module) -> nn.Module:
    """Return a torchvision ResNet with every batch norm folded into the convolution before it; `network` stays.

    Another network comes back unfolded: which norm follows which layer, its modules do not tell.
    """
    network = copy.deepcopy(network, {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())})
    if isinstance(network, ResNet):
        for block in list(network.modules()):
            for convolution, norm in _pairs(block):
                fused = fuse_conv_bn_eval(getattr(block, convolution), getattr(block, norm))
                setattr(block, convolution, fused)
                setattr(block, norm, nn.Identity())
    return network


def _pairs(block: nn.Module) -> list[tuple[str, str]]:
    """Name the convolutions of a module of a ResNet, each with the norm after it: conv1 and bn1, or 0 and 1."""
    names = dict(block.named_children())
    candidates = [("0", "1"), *((name.replace("bn", "conv"), name) for name in names if name.startswith("bn"))]
    return [
        (convolution, norm)
        for convolution, norm in candidates
        if isinstance(names.get(convolution), nn.Conv2d) and isinstance(names.get(norm), nn.BatchNorm2d)
    ]


def _in_precision(network: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """Convert now, and once, the weights that autocast would convert for every batch."""
    for module in network.modules() if dtype is not None else ():
        if isinstance(module, nn.Conv2d | nn.Linear):
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, nn.Parameter(parameter.to(dtype), requires_grad=False))
    return network
