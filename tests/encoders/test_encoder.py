"""Encoders: what is saved is loaded, what does not fit is refused, and a photo becomes a unit vector."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mocosearch.devices import autocast_dtype
from mocosearch.encoders import (
    Encoder,
    EncoderCard,
    Preprocessing,
    fingerprint,
    load_encoder,
    save_encoder,
)
from mocosearch.encoders import encoder as encoder_module
from mocosearch.encoders.sources import CARD_FILE, TENSOR_FILE
from mocosearch.errors import BadCheckpoint, NoEncoder
from mocosearch.nets import ProjectedEncoder, build_backbone, build_head

CPU = torch.device("cpu")
SMALL = Preprocessing(resize=40, crop=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
CARD = EncoderCard(
    architecture="resnet18",
    small_stem=True,
    feature_dim=16,
    trained_on="/photos",
    photos=1234,
    steps=500,
    recipe="moco_v2_small",
    created="2025-01-01T00:00:00+00:00",
)


def query_encoder(seed: int = 0) -> ProjectedEncoder:
    torch.manual_seed(seed)
    return ProjectedEncoder(build_backbone("resnet18", small_stem=True), build_head("mlp", 512, 16))


def picture(size: tuple[int, int] = (60, 45), seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "encoder"
    save_encoder(folder, query_encoder().state_dict(), CARD, SMALL)
    return folder


@pytest.fixture(scope="module")
def encoder(saved: Path) -> Encoder:
    return load_encoder(saved, CPU)


def copy_of(saved: Path, target: Path) -> Path:
    target.mkdir()
    for file in saved.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_a_saved_encoder_comes_back_the_same_from_its_folder_and_from_its_run(saved: Path) -> None:
    source = query_encoder()
    for place in (saved, saved.parent, str(saved)):
        loaded = load_encoder(place, CPU)
        assert (loaded.card, loaded.preprocessing, loaded.dim) == (CARD, SMALL, 512)
        for name, tensor in loaded.network.state_dict().items():
            assert torch.equal(tensor, source.backbone.state_dict()[name])


def test_a_vector_is_the_normalized_output_of_the_backbone_alone(encoder: Encoder) -> None:
    batch = torch.stack([encoder.prepare(picture(seed=seed)) for seed in range(3)])
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (SMALL.mean, SMALL.std))
    with torch.no_grad():
        features = query_encoder().backbone.eval()((batch.float() / 255 - mean) / std)
    expected = torch.nn.functional.normalize(features, dim=1).numpy()
    vectors = encoder.embed(batch)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, 512)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * expected).sum(axis=1).min() > 0.999  # bf16 where the CPU computes it


def test_a_photo_gets_the_same_vector_alone_and_among_others(encoder: Encoder) -> None:
    batch = torch.stack([encoder.prepare(picture(seed=seed)) for seed in range(4)])
    for seed, vector in enumerate(encoder.embed(batch)):
        alone = encoder.embed_image(picture(seed=seed))
        assert alone.shape == (512,)
        assert np.abs(alone - vector).max() < (1e-2 if autocast_dtype(CPU) else 1e-5)


def test_bfloat16_changes_a_vector_hardly(saved: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = []
    for dtype in (torch.bfloat16, None):
        monkeypatch.setattr(encoder_module, "autocast_dtype", lambda device, dtype=dtype: dtype)
        other = load_encoder(saved, CPU)
        vectors.append([other.embed_image(picture(seed=seed)) for seed in range(3)])
        assert other.fingerprint == encoder.fingerprint
    for reduced, full in zip(*vectors, strict=True):
        assert reduced.dtype == np.float32
        assert not np.array_equal(reduced, full)
        assert reduced @ full > 0.999


def test_no_photo_gives_no_vector(encoder: Encoder) -> None:
    assert encoder.embed(torch.empty(0, 3, 32, 32, dtype=torch.uint8)).shape == (0, 512)


def test_numbers_that_are_not_finite_are_an_error(saved: Path, tmp_path: Path) -> None:
    state = query_encoder().state_dict()
    state["backbone.layer4.1.bn2.bias"][3] = float("nan")
    save_encoder(tmp_path, state, CARD, SMALL)
    with pytest.raises(BadCheckpoint, match="not finite"):
        load_encoder(tmp_path, CPU).embed_image(picture())


@pytest.mark.parametrize("size", [(40, 40), (60, 40), (41, 40), (40, 77)])
def test_a_picture_of_the_right_short_side_is_only_cropped(encoder: Encoder, size: tuple[int, int]) -> None:
    image = picture(size)
    left, top = (size[0] - 32) // 2, (size[1] - 32) // 2
    expected = np.asarray(image)[top : top + 32, left : left + 32]
    prepared = encoder.prepare(image)
    assert (prepared.shape, prepared.dtype) == ((3, 32, 32), torch.uint8)
    assert np.array_equal(prepared.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("size", [(120, 80), (200, 333), (20, 10)])
def test_any_other_picture_is_resized_with_antialiasing_then_cropped(encoder: Encoder, size: tuple[int, int]) -> None:
    image = picture(size)
    scale = 40 / min(size)
    resized = image.resize((round(size[0] * scale), round(size[1] * scale)), Image.Resampling.BICUBIC)
    left, top = (resized.width - 32) // 2, (resized.height - 32) // 2
    expected = np.asarray(resized, dtype=int)[top : top + 32, left : left + 32]
    assert np.abs(encoder.prepare(image).permute(1, 2, 0).numpy() - expected).mean() < 3


@pytest.mark.parametrize("size", [(1, 1), (1, 30_000), (30_000, 1), (7, 3)])
def test_extreme_shapes_are_prepared(encoder: Encoder, size: tuple[int, int]) -> None:
    assert encoder.prepare(Image.new("RGB", size, "red")).tolist()[0] == [[255] * 32] * 32


def test_a_crop_larger_than_the_resized_picture_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="crop 41"):
        Preprocessing(resize=40, crop=41, mean=SMALL.mean, std=SMALL.std)


CHANGES: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
    "one bit of a weight": lambda b: b["conv1.weight"].view(-1)[5:6].view(torch.int32).bitwise_xor_(1),
    "a running mean": lambda b: b["bn1.running_mean"][0].add_(1),
    "a name": lambda b: b.__setitem__("other", b.pop("bn1.bias")),
    "a type": lambda b: b.__setitem__("bn1.bias", b["bn1.bias"].double()),
    "a shape": lambda b: b.__setitem__("conv1.weight", b["conv1.weight"].view(3, 64, 3, 3)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_tells_every_difference_of_the_weights(change: str) -> None:
    backbone = {name: tensor.clone() for name, tensor in query_encoder().backbone.state_dict().items()}
    before = fingerprint(backbone, SMALL, CARD)
    CHANGES[change](backbone)
    assert fingerprint(backbone, SMALL, CARD) != before


def test_the_fingerprint_tells_the_preprocessing_and_nothing_that_leaves_the_vectors_alone() -> None:
    encoder = query_encoder()
    backbone = encoder.backbone.state_dict()
    before = fingerprint(backbone, SMALL, CARD)
    assert len(before) == 16
    assert fingerprint(backbone, Preprocessing(41, 32, SMALL.mean, SMALL.std), CARD) != before
    for stem in ({"stem_padding": 2}, {"stem_relu": False}):
        assert fingerprint(backbone, SMALL, replace(CARD, **stem)) != before
    backbone["bn1.num_batches_tracked"] += 1
    turned = encoder.backbone.to(memory_format=torch.channels_last).state_dict()
    assert fingerprint(turned, SMALL, CARD) == fingerprint(backbone, SMALL, CARD) == before


def test_an_encoder_saves_itself_with_the_same_fingerprint(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "copy")
    again = load_encoder(tmp_path / "copy", CPU)
    assert (again.fingerprint, again.card, again.preprocessing) == (encoder.fingerprint, CARD, SMALL)
    assert np.array_equal(again.embed_image(picture()), encoder.embed_image(picture()))


def test_the_card_reads_as_one_safe_line(encoder: Encoder) -> None:
    assert encoder.card.description == "resnet18 trained on 1,234 photos of /photos (moco_v2_small, 500 steps)"
    odd = EncoderCard("resnet18", False, 16, os.fsdecode(b"/pho\ntos\xff"), 8, 0, "moco_v2", "")
    assert odd.description == "resnet18, untrained"
    trained = EncoderCard("resnet18", False, 16, os.fsdecode(b"/pho\ntos\xff"), 8, 1, "moco_v2", "")
    assert trained.description.isprintable()


def rewrite_card(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    facts = json.loads((folder / CARD_FILE).read_text())
    del facts["checksum"]  # as older versions wrote it
    change(facts)
    (folder / CARD_FILE).write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts.update(format=2), "newer mocosearch"),
        *((lambda facts, value=value: facts.update(format=value), "damaged") for value in (0, True, 1.5, "1", None)),
        *(
            (lambda facts, key=key, value=value: facts["preprocessing"].update({key: value}), "damaged")
            for key, value in (
                *(("resize", value) for value in ("40", 40.5, True, 10**9)),
                *(("mean", value) for value in ("abc", [0.5], 0.5, [0.5, 0.5, float("nan")], [True, 0, 0])),
                *(("std", value) for value in ([0.5, 0.5, 0], [0.5, 0.5, -1], [0.5, 0.5, 10**400], [1, 1, "1"])),
            )
        ),
        *(
            (lambda facts, key=key, value=value: facts["card"].update({key: value}), "damaged")
            for key, value in (
                *(("architecture", value) for value in (18, None, "resnet18\n")),
                *(("trained_on", value) for value in (["/photos"], "\ud800")),
                *(("photos", value) for value in ("8", 8.5, True, -1)),
                *(("stem_padding", value) for value in (4, -1, "1", None, 1.0)),
                *(("stem_relu", value) for value in (1, "yes", None)),
                ("mo\nod", "good"),
            )
        ),
        (lambda facts: facts.update(fingerprint="0" * 16), "belong together"),
        (lambda facts: facts["preprocessing"].update(crop=31), "belong together"),
        (lambda facts: facts["preprocessing"].update(crop=99), "damaged"),
        (lambda facts: facts.pop("card"), "damaged"),
        (lambda facts: facts["card"].update(mood="good"), "damaged"),
        (lambda facts: facts["card"].update(architecture="resnet999"), "resnet999"),
        (lambda facts: facts["card"].update(architecture="resnet34"), "layer1.2.conv1.weight is missing"),
        (lambda facts: facts["card"].update(small_stem=False), r"conv1.weight is \(64, 3, 3, 3\), not"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    saved: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    folder = copy_of(saved, tmp_path / "encoder")
    rewrite_card(folder, change)
    with pytest.raises(BadCheckpoint, match=message) as caught:
        load_encoder(folder, CPU)
    assert "\n" not in str(caught.value)


def test_tensors_of_another_encoder_or_cut_off_or_missing_are_refused(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "encoder")
    whole = (folder / TENSOR_FILE).read_bytes()
    save_encoder(tmp_path / "other", query_encoder(seed=1).state_dict(), CARD, SMALL)
    (folder / TENSOR_FILE).write_bytes((tmp_path / "other" / TENSOR_FILE).read_bytes())
    with pytest.raises(BadCheckpoint, match="belong together"):
        load_encoder(folder, CPU)
    for damaged in (whole[:-1000], whole[:6], b"", b"\xff" * 1000):
        (folder / TENSOR_FILE).write_bytes(damaged)
        with pytest.raises(BadCheckpoint, match="cannot be read"):
            load_encoder(folder, CPU)
    (folder / TENSOR_FILE).unlink()
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        load_encoder(folder, CPU)


def test_a_card_that_is_no_json_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "encoder")
    for text in ("", "{", "[]", "null", "[" * 100_000):
        (folder / CARD_FILE).write_text(text)
        with pytest.raises(BadCheckpoint, match="damaged"):
            load_encoder(folder, CPU)


def test_what_is_no_encoder_is_answered_with_the_forms_that_work(tmp_path: Path) -> None:
    with pytest.raises(NoEncoder, match=r"run folder.*moco-v2-800ep"):
        load_encoder(tmp_path / "nowhere", CPU)
    with pytest.raises(NoEncoder, match=r"moco-v3.*moco-v2-800ep"):
        load_encoder("moco-v3", CPU)
    with pytest.raises(BadCheckpoint, match=r"no finished encoder.*moco-v2-800ep"):
        load_encoder(tmp_path, CPU)


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("wrap", [lambda evil: evil, lambda evil: {"state_dict": evil, "arch": "resnet18"}])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, wrap: Callable[[object], object]) -> None:
    target, file = tmp_path / "run", tmp_path / "evil.pth"
    torch.save(wrap(Malicious(target)), file)
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(wrap(Malicious(target)), protocol=2))
    for name in (file, tmp_path / "plain.pth"):
        with pytest.raises(BadCheckpoint) as caught:
            load_encoder(name, CPU)
        assert "\n" not in str(caught.value)
    assert not target.exists()
    torch.load(file, weights_only=False)
    assert target.exists()  # it would have run


def test_a_file_of_the_authors_layout_is_an_encoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = ProjectedEncoder(build_backbone("resnet18"), build_head("mlp", 512, 128))
    names = {f"module.encoder_q.{n}": t for n, t in network.backbone.state_dict().items()}
    names |= {f"module.encoder_q.fc.{n}": t for n, t in network.head.state_dict().items()}
    file = tmp_path / "checkpoint_0199.pth.tar"
    torch.save({"epoch": 200, "arch": "resnet18", "state_dict": names, "optimizer": {}}, file)
    encoder = load_encoder(file, CPU)
    assert (encoder.preprocessing.resize, encoder.preprocessing.crop, encoder.dim) == (256, 224, 512)
    assert "moco_v2, 200 epochs" in encoder.card.description
    assert encoder.card.feature_dim == 128
    assert torch.equal(encoder.network.state_dict()["conv1.weight"], network.backbone.state_dict()["conv1.weight"])
    encoder.save(tmp_path / "kept")
    assert load_encoder(tmp_path / "kept", CPU).fingerprint == encoder.fingerprint


def test_weights_are_loaded_without_drawing_random_numbers(saved: Path) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    load_encoder(saved, CPU)
    assert torch.equal(torch.get_rng_state(), before)
