"""An encoder: a network that turns a photo into a unit vector, and the two files that hold it.

`encoder/` holds `model.safetensors` (tensors `backbone.*` and, from training, `head.*`; the searched vector is the
backbone's output) and `encoder.json` (what it is, where it comes from, how a photo is prepared for it). The
fingerprint of weights and preprocessing tells whether two encoders give the same vectors.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from mocosearch.devices import autocast_dtype, best_device
from mocosearch.encoders.card import EncoderCard, EncoderFacts, Preprocessing, fingerprint
from mocosearch.encoders.downloads import Announce, BytesCallback
from mocosearch.encoders.inference import Inference
from mocosearch.encoders.sources import BACKBONE, CARD_FILE, TENSOR_FILE, open_source
from mocosearch.errors import BadCheckpoint
from mocosearch.nets import feature_dim
from mocosearch_index.atomic import atomic_path, atomic_write


class Encoder:
    """A network in inference mode on one device. Several threads may use it at once."""

    def __init__(
        self, network: nn.Module, card: EncoderCard, preprocessing: Preprocessing, device: torch.device
    ) -> None:
        self.card = card
        self.preprocessing = preprocessing
        self.device = device
        self.dim = feature_dim(network)
        self.network = network.eval().requires_grad_(False).to(device)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this encoder from others: see `fingerprint`."""
        return fingerprint(self.network.state_dict(), self.preprocessing, self.card)

    def prepare(self, image: Image.Image) -> Tensor:
        """Cut a picture (RGB, any size) to what the network sees: uint8 (3, crop, crop)."""
        return self.preprocessing.prepare(image)

    @cached_property
    def inference(self) -> Inference:
        """The network as it runs here; made at the first use, which takes some tenths of a second."""
        return Inference(self.network, self.preprocessing, self.device, autocast_dtype(self.device))

    def embed(self, batch: Tensor) -> NDArray[np.float32]:
        """Embed prepared pictures, uint8 (B, 3, crop, crop): float32 (B, dim), rows of unit length.

        Raises BadCheckpoint when the network gives numbers that are not finite, OutOfMemory.
        """
        vectors = nn.functional.normalize(self.inference(batch), dim=1).numpy()
        if not np.isfinite(vectors).all():
            raise BadCheckpoint(
                f"The encoder {self.fingerprint} gives numbers that are not finite: its weights are no good; "
                "train again, or name another encoder."
            )
        return np.asarray(vectors, dtype=np.float32)

    def embed_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Embed one picture (RGB, any size): float32 (dim,) of unit length."""
        return np.asarray(self.embed(self.prepare(image)[None])[0])

    def save(self, folder: Path) -> None:
        """Write this encoder, without a projection head, so that `load_encoder(folder)` gives it again."""
        state = {f"{BACKBONE}{name}": tensor for name, tensor in self.network.state_dict().items()}
        save_encoder(folder, state, self.card, self.preprocessing)


def save_encoder(folder: Path, state: Mapping[str, Tensor], card: EncoderCard, preprocessing: Preprocessing) -> None:
    """Write `encoder.json` and `model.safetensors` into `folder`; `state` holds `backbone.*` and `head.*`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Channels-last and float64 networks are stored alike: contiguous float32.
    tensors = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in state.items()
    }
    backbone = {name.removeprefix(BACKBONE): t for name, t in tensors.items() if name.startswith(BACKBONE)}
    facts = EncoderFacts(card, preprocessing, fingerprint(backbone, preprocessing, card))
    with atomic_path(folder / TENSOR_FILE) as partial:
        safetensors.torch.save_file(tensors, partial)
    atomic_write(folder / CARD_FILE, facts.to_json().encode("ascii"))  # last: it vouches for the tensors


def load_encoder(
    spec: str | Path,
    device: torch.device | None = None,
    *,
    announce: Announce = lambda offer: None,
    progress: BytesCallback = lambda done: None,
) -> Encoder:
    """Load the encoder that `spec` names in one of FORMS.

    `announce` and `progress` go to `downloads.fetch_file`, should the network be needed. Raises NoEncoder when `spec`
    names nothing, BadCheckpoint when what it names is not an encoder, is damaged or does not fit.
    """
    source = open_source(spec, announce, progress)
    encoder = Encoder(source.network, source.card, source.preprocessing, device or best_device())
    if source.stated_fingerprint not in (None, encoder.fingerprint):
        raise BadCheckpoint(
            f"The tensors and the facts in {source.place} do not belong together (the facts are of "
            f"{source.stated_fingerprint}, the tensors of {encoder.fingerprint}): copy the whole again, or train again."
        )
    return encoder
