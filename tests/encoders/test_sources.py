"""Encoders by name: torchvision's and timm's, from their own caches, from a server, from a file."""

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import safetensors.torch
import timm
import torch
import torchvision

from mocosearch.encoders import load_encoder
from mocosearch.encoders.downloads import MIRROR, Offer
from mocosearch.encoders.sources import CARD_FILE, TENSOR_FILE
from mocosearch.errors import BadCheckpoint, DownloadFailed, NoEncoder

CPU = torch.device("cpu")
VIT = "test_vit.r160_in1k"  # timm's tiniest, of 160 pixels


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files` as the Hugging Face hub does, which any other client understands too."""

    files: dict[str, bytes]
    requests: list[str]

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        self.requests.append(f"{self.command} {self.path}")
        body = self.files.get(self.path)
        self.send_response(404 if body is None else 200)
        for name, value in (("ETag", f'"{"a" * 40}"'), ("X-Repo-Commit", "b" * 40)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if with_body and body is not None:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    Handler.files, Handler.requests = {}, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def address(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights as torchvision publishes them, but random."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("published") / "resnet18.pth"
    torch.save(torchvision.models.resnet18().state_dict(), path)
    return path


@pytest.fixture
def publish(weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of the file that torchvision.models names for resnet18; TORCH_HOME is an empty folder."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    name = f"resnet18-{hashlib.sha256(weights.read_bytes()).hexdigest()[:8]}.pth"
    default = torchvision.models.ResNet18_Weights.DEFAULT
    monkeypatch.setattr(default.value, "url", f"https://download.pytorch.org/models/{name}")
    return name


def test_torchvision_weights_are_fetched_once_into_torchs_own_cache_after_they_were_announced(
    server: http.server.ThreadingHTTPServer,
    publish: str,
    weights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MIRROR, address(server))
    Handler.files[f"/{publish}"] = weights.read_bytes()
    offers: list[Offer] = []
    encoder = load_encoder("torchvision:resnet18", CPU, announce=offers.append)
    assert [(offer.name, offer.size) for offer in offers] == [("torchvision:resnet18", weights.stat().st_size)]
    assert "ImageNet" in offers[0].license
    assert (tmp_path / "torch" / "hub" / "checkpoints" / publish).read_bytes() == weights.read_bytes()
    assert load_encoder("torchvision:resnet18", CPU).fingerprint == encoder.fingerprint
    assert len(Handler.requests) == 1
    assert "ImageNet-1K, ResNet18_Weights.IMAGENET1K_V1" in encoder.card.description
    assert (encoder.preprocessing.resize, encoder.preprocessing.crop) == (256, 224)


def test_a_damaged_torchvision_download_is_not_kept(
    server: http.server.ThreadingHTTPServer, publish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR, address(server))
    Handler.files[f"/{publish}"] = b"something else"
    with pytest.raises(DownloadFailed, match="sha256"):
        load_encoder("torchvision:resnet18", CPU)
    assert not (tmp_path / "torch" / "hub" / "checkpoints" / publish).exists()


def test_without_network_it_is_said_where_to_put_torchvisions_file(
    publish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:1")
    with pytest.raises(DownloadFailed) as caught:
        load_encoder("torchvision:resnet18", CPU)
    assert f"put it at '{tmp_path / 'torch' / 'hub' / 'checkpoints' / publish}'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torchvision:resnet51", "known: resnet101"),
        ("torchvision:vgg16", "no ResNet 'vgg16'"),
        ("timm:test_vitt", "near it: test_vit"),
        ("timm:test_vit.foo", "with weights it has: test_vit.r160_in1k"),
        (f"timm:{VIT}=nowhere.pth", "no file 'nowhere.pth'"),
        ("x" * 5000, "There is no encoder xxx"),
        ("nul\0byte", "There is no encoder nul\\x00byte"),
        (f"timm:resnet18={'x' * 5000}", "There is no file"),
        ("https://example.com/e.pth", "no encoder https://example.com/e.pth"),
        ("keras:resnet50", "torchvision:NAME, timm:NAME, timm:NAME=FILE"),
    ],
)
def test_a_name_that_is_none_is_answered_with_those_that_are(spec: str, message: str) -> None:
    with pytest.raises(NoEncoder) as caught:
        load_encoder(spec, CPU)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_onnx_file_is_answered_with_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "e.onnx").write_bytes(b"\x08\x0a")
    with pytest.raises(
        BadCheckpoint, match=r"ONNX files are written but cannot be read; name the run, or a safetensors"
    ):
        load_encoder(tmp_path / "e.onnx", CPU)


def save_timm(name: str, path: Path) -> torch.nn.Module:
    """Save a network with its classifier, as timm publishes it; return it without."""
    torch.manual_seed(0)
    network = timm.create_model(name)
    safetensors.torch.save_file(network.state_dict(), path)
    network.reset_classifier(0)
    return network.eval()


@pytest.mark.parametrize("name", [VIT, "test_convnext.r160_in1k", "resnet10t"])
def test_a_file_of_a_timm_network_gives_timms_features_of_pictures_prepared_as_timm_does(
    name: str, tmp_path: Path
) -> None:
    network = save_timm(name, tmp_path / "w.safetensors")
    encoder = load_encoder(f"timm:{name}={tmp_path / 'w.safetensors'}", CPU)
    config = timm.data.resolve_model_data_config(network)
    assert encoder.preprocessing.crop == config["input_size"][-1]
    assert encoder.preprocessing.resize == int(config["input_size"][-1] / config["crop_pct"])
    pixels = torch.randint(0, 256, (2, *config["input_size"]), dtype=torch.uint8)
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.inference_mode():
        features = network((pixels / 255 - mean) / std)
        assert torch.allclose(encoder.network((pixels / 255 - mean) / std), features, rtol=1e-4, atol=1e-5)
    vectors = encoder.embed(pixels)
    assert vectors.shape == (2, encoder.dim)
    assert (vectors * torch.nn.functional.normalize(features, dim=1).numpy()).sum(1).min() > 0.99  # bf16 on some CPUs
    encoder.save(tmp_path / "kept")
    again = load_encoder(tmp_path / "kept", CPU)
    assert again.card.architecture == f"timm:{name}"
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.embed(pixels), vectors)


def test_a_vit_of_moco_v3_or_of_solo_learn_is_found_below_its_prefix(tmp_path: Path) -> None:
    network = save_timm(VIT, tmp_path / "w.safetensors")
    state = network.state_dict()
    for prefix, others in (("module.base_encoder.", "module.momentum_encoder."), ("backbone.", "momentum_backbone.")):
        named = {f"{prefix}{n}": t for n, t in state.items()} | {f"{others}{n}": t + 1 for n, t in state.items()}
        named |= {f"{prefix}head.0.weight": torch.zeros(2, 64)}
        torch.save({"epoch": 300, "arch": "vit_small", "state_dict": named}, tmp_path / "v.pth.tar")
        loaded = load_encoder(f"timm:{VIT}={tmp_path / 'v.pth.tar'}", CPU).network.state_dict()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
        with pytest.raises(BadCheckpoint, match="timm:NAME=FILE"):
            load_encoder(tmp_path / "v.pth.tar", CPU)


def test_weights_of_another_timm_network_are_refused_in_one_line(tmp_path: Path) -> None:
    save_timm(VIT, tmp_path / "w.safetensors")
    for other in ("test_convnext", "test_vit2", "test_resnet"):
        with pytest.raises(BadCheckpoint, match="does not fit its network") as caught:
            load_encoder(f"timm:{other}={tmp_path / 'w.safetensors'}", CPU)
        assert "\n" not in str(caught.value)


def test_building_a_timm_network_draws_no_random_numbers(tmp_path: Path) -> None:
    save_timm(VIT, tmp_path / "w.safetensors")
    before = torch.get_rng_state()
    load_encoder(f"timm:{VIT}={tmp_path / 'w.safetensors'}", CPU)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def hub(server: http.server.ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a hub; what HF_ENDPOINT and HF_HOME say to a process that starts."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    set_endpoint(address(server), monkeypatch)
    return address(server)


def set_endpoint(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def test_timm_weights_come_from_the_hub_once_after_they_were_announced(hub: str, tmp_path: Path) -> None:
    save_timm(VIT, tmp_path / "w.safetensors")
    body = (tmp_path / "w.safetensors").read_bytes()
    Handler.files[f"/timm/{VIT}/resolve/main/model.safetensors"] = body
    offers: list[Offer] = []
    arrived: list[int] = []
    encoder = load_encoder(f"timm:{VIT}", CPU, announce=offers.append, progress=arrived.append)
    url = f"{hub}/timm/{VIT}/resolve/main/model.safetensors"
    assert offers == [Offer(f"timm:{VIT}", url, len(body), "apache-2.0")]
    assert arrived[-1] == len(body)
    Handler.requests.clear()
    assert load_encoder(f"timm:{VIT}", CPU).fingerprint == encoder.fingerprint
    assert Handler.requests == []
    assert load_encoder(f"timm:{VIT}={tmp_path / 'w.safetensors'}", CPU).fingerprint == encoder.fingerprint


def test_whoever_is_told_of_the_hubs_file_can_decline_it(hub: str, tmp_path: Path) -> None:
    def decline(offer: Offer) -> None:
        raise KeyboardInterrupt

    Handler.files[f"/timm/{VIT}/resolve/main/model.safetensors"] = b"unwanted"
    with pytest.raises(KeyboardInterrupt):
        load_encoder(f"timm:{VIT}", CPU, announce=decline)
    assert not any(request.startswith("GET /timm") for request in Handler.requests)


@pytest.mark.parametrize("endpoint", ["missing", "unreachable"])
def test_what_the_hub_does_not_give_is_told_in_one_line_with_the_way_around(
    hub: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if endpoint == "unreachable":
        set_endpoint("http://127.0.0.1:1", monkeypatch)
    with pytest.raises(DownloadFailed) as caught:
        load_encoder(f"timm:{VIT}", CPU)
    assert ("Connection refused" if endpoint == "unreachable" else "404") in str(caught.value)
    assert f"give the file as timm:{VIT}=FILE" in str(caught.value)
    assert "model.safetensors (license: apache-2.0) could not be downloaded" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_either_file_of_an_encoder_folder_names_the_folder(tmp_path: Path) -> None:
    save_timm(VIT, tmp_path / "w.safetensors")
    encoder = load_encoder(f"timm:{VIT}={tmp_path / 'w.safetensors'}", CPU)
    encoder.save(tmp_path / "encoder")
    for name in (CARD_FILE, TENSOR_FILE):
        assert load_encoder(tmp_path / "encoder" / name, CPU).card == encoder.card
    assert json.loads((tmp_path / "encoder" / CARD_FILE).read_text())["fingerprint"] == encoder.fingerprint
