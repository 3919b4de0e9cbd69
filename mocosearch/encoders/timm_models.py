"""Networks of timm, with or without its published weights.

timm knows how a picture is prepared for each network, how files of its authors are renamed, and where the weights are
on the Hugging Face hub. Their cache is the hub's own (HF_HOME).
"""

import difflib
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from mocosearch.encoders.card import Preprocessing
from mocosearch.encoders.downloads import Announce, BytesCallback, Offer
from mocosearch.errors import BadCheckpoint, DownloadFailed, NoEncoder

SCHEME = "timm:"
_WEIGHTS = "model.safetensors"  # what timm's repositories on the hub call them


def build(name: str) -> nn.Module:
    """Build the network timm calls `name` without its classifier: (B, 3, H, W) -> (B, `network.feature_dim`).

    Its weights are random, drawn without touching the global generator. Raises NoEncoder.
    """
    timm = _timm()
    architecture = name.partition(".")[0]
    if not timm.is_model(architecture):
        near = ", ".join(difflib.get_close_matches(architecture, timm.list_models(), n=3))
        raise NoEncoder(f"timm {timm.__version__} has no network '{architecture}'{near and f'; near it: {near}'}.")
    with torch.random.fork_rng(devices=[]):
        try:
            network: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
        except RuntimeError as error:  # an unknown tag
            tags = ", ".join(timm.list_pretrained(architecture)) or "none"
            raise NoEncoder(f"timm cannot build '{name}' ({error}); with weights it has: {tags}.") from None
    network.feature_dim = network.head_hidden_size
    return network


def preprocessing(network: nn.Module, name: str) -> Preprocessing:
    """Return how timm prepares a picture for `network`; BadCheckpoint unless that is a square of RGB."""
    config = _timm().data.resolve_model_data_config(network)
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise BadCheckpoint(f"{SCHEME}{name} sees {config['input_size']}, not RGB squares: name another network.")
    mean, std = tuple(config["mean"]), tuple(config["std"])
    return Preprocessing(math.floor(height / config["crop_pct"]), height, mean, std)


def own_names(tensors: Mapping[str, Tensor], network: nn.Module, source: str) -> dict[str, Tensor]:
    """Name `tensors` as `network` does where timm knows their authors' names, and leave out what is its classifier."""
    rename = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    try:
        named: dict[str, Tensor] = dict(tensors) if rename is None else rename(dict(tensors), network)
    except (LookupError, ValueError, RuntimeError, AttributeError, TypeError, AssertionError) as error:
        raise BadCheckpoint(f"{source} does not fit its network ({error}): name the architecture it is of.") from error
    classifiers = _config(network).get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else classifiers
    heads = tuple(f"{classifier.partition('.')[0]}." for classifier in classifiers)
    expected = network.state_dict()
    return {name: tensor for name, tensor in named.items() if name in expected or not name.startswith(heads)}


def repository(network: nn.Module) -> str:
    """Return where on the hub timm has the weights of `network`; empty when it has none."""
    return _config(network).get("hf_hub_id") or ""


def fetch_weights(network: nn.Module, name: str, announce: Announce, progress: BytesCallback) -> Path:
    """Return the file with timm's weights of `network`, from the hub's cache or else downloaded into it.

    `announce` and `progress` as for `downloads.fetch_file`. Raises NoEncoder when there are none, DownloadFailed.
    """
    import huggingface_hub

    hub: Any = huggingface_hub  # whose overloads do not take keywords from a dictionary
    config = _config(network)
    if not repository(network):
        raise NoEncoder(f"timm publishes no weights for '{name}': give a file of them as {SCHEME}{name}=FILE.")
    repo_id, _, revision = repository(network).partition("@")
    place = {"repo_id": repo_id, "filename": config.get("hf_hub_filename") or _WEIGHTS, "revision": revision or None}
    cached = hub.try_to_load_from_cache(**place)
    if isinstance(cached, str):
        return Path(cached)
    url = hub.hf_hub_url(**place)
    licensed = config.get("license") or "as its page on the hub says"
    try:
        size = hub.get_hf_file_metadata(url).size  # without network this ends at once; the download tries many times
        announce(Offer(f"{SCHEME}{name}", url, size, licensed))
        return Path(hub.hf_hub_download(**place, tqdm_class=_reporting(progress)))
    except (OSError, ValueError, hub.errors.EntryNotFoundError, hub.errors.HTTPError) as error:
        raise DownloadFailed(
            f"{url} (license: {licensed}) could not be downloaded ({_cause(error)}): check the connection, or fetch it "
            f"elsewhere and give the file as {SCHEME}{name}=FILE."
        ) from error


def _timm() -> ModuleType:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the hub's client reads it when timm imports it
    import timm  # here, since it takes a second

    module: ModuleType = timm
    return module


def _config(network: nn.Module) -> dict[str, Any]:
    config = network.pretrained_cfg
    assert isinstance(config, dict)
    return config


def _reporting(progress: BytesCallback) -> type:
    """Return a bar that draws nothing and tells `progress` the number of bytes so far."""
    from tqdm import tqdm

    class Reporting(tqdm):  # type: ignore[misc]
        done = 0

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})
            self.done = int(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            progress(self.done)

    return Reporting


def _cause(error: BaseException) -> str:
    """Return the first line of the innermost cause: the hub's own text is a paragraph."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
