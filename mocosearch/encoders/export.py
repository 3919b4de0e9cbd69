"""Encoders for other programs: torchvision, safetensors, ONNX, detectron2. A file appears whole and checked, or not."""

import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from mocosearch.encoders.card import EncoderFacts
from mocosearch.encoders.checkpoint_formats import FACTS_KEY, is_batch_count
from mocosearch.encoders.encoder import Encoder
from mocosearch.errors import CannotExport, MissingExtra
from mocosearch.nets import backbone_names
from mocosearch_index.atomic import atomic_path, disk_errors_named, not_writable
from mocosearch_index.paths import is_reachable, shown

OPSET = 20
TOLERANCE = 1e-4  # of a number of a unit vector, between ONNX and torch
_CHECKED_BATCHES = (1, 3)


def export_encoder(encoder: Encoder, format_name: str, out: Path, *, replace: bool = False) -> str:
    """Write `encoder` to `out` in one of FORMATS and return a line about using it.

    Raises BadCheckpoint when the encoder gives numbers that are not finite; CannotExport when the format has no place
    for the encoder, when the file does not give the encoder's vectors, or when `out` is there and not to be replaced or
    no regular file; MissingExtra; DiskFull; NotWritable. A file that was there stays.
    """
    if is_reachable(out) and not replace:
        raise CannotExport(f"{shown(out)} is there already: name another --out, or replace it with --force.")
    if is_reachable(out) and not out.is_file():
        raise CannotExport(f"{shown(out)} is {'a folder' if out.is_dir() else 'no file'}: name a file as --out.")
    probe = torch.zeros(1, 3, encoder.preprocessing.crop, encoder.preprocessing.crop, dtype=torch.uint8)
    encoder.embed(probe)  # of weights that are no good no file is made
    with disk_errors_named(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(out) as partial:
        try:
            partial.touch()
        except FileNotFoundError as error:  # as in /proc
            raise not_writable(out.parent) from error
        return FORMATS[format_name](encoder, partial)


def _torchvision(encoder: Encoder, path: Path) -> str:
    """A plain state dict under torchvision's names; no `fc`, since there is no classifier."""
    _require_resnet(encoder, "torchvision")
    card = encoder.card
    if card.stem_padding != 1 or not card.stem_relu:
        raise CannotExport(
            "A torchvision state dict cannot say how this encoder's first convolution is padded or followed: choose "
            "--format safetensors or onnx."
        )
    torch.save(_tensors(encoder), path)
    stem = " after conv1 = Conv2d(3, 64, 3, padding=1, bias=False), maxpool = Identity()" if card.small_stem else ""
    return f"loads strictly into torchvision.models.{card.architecture}() with fc = Identity(){stem}"


def _safetensors(encoder: Encoder, path: Path) -> str:
    """The tensors under the network's own names; card and preprocessing in the header, so that nothing is lost."""
    facts = EncoderFacts(encoder.card, encoder.preprocessing, encoder.fingerprint)
    # Not save_file, whose files nobody else may read.
    path.write_bytes(safetensors.torch.save(_tensors(encoder), {"format": "pt", FACTS_KEY: facts.to_json()}))
    return "mocosearch reads it wherever an encoder is named; fingerprint and preprocessing are kept"


def _detectron2(encoder: Encoder, path: Path) -> str:
    """What detectron2's checkpointer takes for MODEL.WEIGHTS: a pickle of NumPy arrays under its names."""
    _require_resnet(encoder, "detectron2")
    if encoder.card.small_stem:
        raise CannotExport("detectron2 has no ResNet with a 3x3 first convolution: train without a small stem.")
    tensors = {name: tensor for name, tensor in _tensors(encoder).items() if not is_batch_count(name)}
    model = {detectron2_name(name): tensor.numpy() for name, tensor in tensors.items()}
    with path.open("wb") as file:
        pickle.dump({"model": model, "__author__": "mocosearch", "matching_heuristics": True}, file)
    mean, std = (
        [round(255 * value, 3) for value in values]
        for values in (encoder.preprocessing.mean, encoder.preprocessing.std)
    )
    return f"set INPUT.FORMAT RGB, MODEL.PIXEL_MEAN {mean}, MODEL.PIXEL_STD {std}, MODEL.RESNETS.STRIDE_IN_1X1 False"


def detectron2_name(name: str) -> str:
    """Turn torchvision's name of a ResNet's tensor into detectron2's."""
    name = re.sub(r"^layer(\d)", lambda stage: f"res{int(stage[1]) + 1}", name)
    name = re.sub(r"\bbn(\d)", r"conv\1.norm", name)
    name = name.replace("downsample.0", "shortcut").replace("downsample.1", "shortcut.norm")
    return name if name.startswith("res") else f"stem.{name}"


class FromPixels(nn.Module):
    """The whole way from pixels to the vector that is searched: uint8 (B, 3, crop, crop) -> float32 (B, dim)."""

    scale: Tensor
    shift: Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.network = encoder.network
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (encoder.preprocessing.mean, encoder.preprocessing.std))
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("shift", -mean / std)

    def forward(self, images: Tensor) -> Tensor:
        """Normalize the pixels, apply the network, scale to unit length."""
        features = self.network(images.float() * self.scale + self.shift)
        return nn.functional.normalize(features, dim=1)


def _onnx(encoder: Encoder, path: Path) -> str:
    """One ONNX file with the normalization inside, compared with torch before it is let go."""
    onnx, runtime = _onnx_packages()
    if encoder.device.type != "cpu":
        raise ValueError("the encoder should be on the CPU")
    model, crop = FromPixels(encoder).eval(), encoder.preprocessing.crop
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (max(_CHECKED_BATCHES), 3, crop, crop), generator=draw, dtype=torch.uint8)
    try:
        with torch.inference_mode(False), torch.no_grad():
            program = torch.onnx.export(
                model,
                (pixels,),
                input_names=["images"],
                output_names=["vectors"],
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            program.save(path)
    except torch.onnx.errors.OnnxExporterError as error:
        cause = str(error.__cause__ or error).splitlines()[0][:200]
        raise CannotExport(
            f"torch cannot write {encoder.card.architecture} as ONNX ({cause}): choose --format safetensors."
        ) from error
    _describe(onnx, path, encoder)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    difference = max(_difference(session, model, pixels[:batch]) for batch in _CHECKED_BATCHES)
    if not difference <= TOLERANCE:  # NaN too
        raise CannotExport(
            f"The ONNX file gives other vectors than torch (they differ by {difference:.1e}) and was not kept: update "
            "onnx, onnxscript and onnxruntime, or choose --format safetensors."
        )
    takes = f"takes uint8 (batch, 3, {crop}, {crop})"
    return f"opset {OPSET}; {takes}; onnxruntime's vectors differ from torch's by at most {difference:.1e}"


def _difference(session: Any, model: nn.Module, pixels: Tensor) -> float:
    """Return the largest difference between numbers of the vectors of both."""
    with torch.inference_mode():
        expected = model(pixels)
    (vectors,) = session.run(["vectors"], {"images": pixels.numpy()})
    return float((torch.from_numpy(vectors) - expected).abs().max())


def _describe(onnx: Any, path: Path, encoder: Encoder) -> None:
    """Write into the file what a program that uses it has to know."""
    model = onnx.load(path)
    facts = {
        "fingerprint": encoder.fingerprint,
        "encoder": encoder.card.description,
        "resize": str(encoder.preprocessing.resize),
        "crop": str(encoder.preprocessing.crop),
        "input": "uint8 RGB, short side resized to `resize` (bicubic, antialiased), center crop of `crop`",
    }
    onnx.helper.set_model_props(model, facts)
    onnx.save(model, path)


def _onnx_packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - torch.onnx uses it
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"--format onnx needs the package {error.name}: install it with `pip install 'mocosearch[onnx]'`."
        ) from None
    return onnx, onnxruntime


def _require_resnet(encoder: Encoder, format_name: str) -> None:
    if encoder.card.architecture not in backbone_names():
        raise CannotExport(
            f"{encoder.card.architecture} is no torchvision ResNet, and --format {format_name} holds nothing else: "
            "choose --format safetensors or onnx."
        )


def _tensors(encoder: Encoder) -> dict[str, Tensor]:
    """Return the network's tensors as plain contiguous ones on the CPU."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.network.state_dict().items()}


FORMATS: Mapping[str, Callable[[Encoder, Path], str]] = {
    "torchvision": _torchvision,
    "safetensors": _safetensors,
    "onnx": _onnx,
    "detectron2": _detectron2,
}
