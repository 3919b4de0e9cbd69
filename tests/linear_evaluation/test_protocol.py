"""The paper's protocol, step by step against plain PyTorch, and what it says of small and damaged sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image
from torch import Tensor, nn

from mocosearch import randomness
from mocosearch.devices import autocast_dtype
from mocosearch.errors import BadCheckpoint, Interrupted, NotFrozen, Unscorable
from mocosearch.evaluation.labels.labelled import LabelledPhotos
from mocosearch.evaluation.outcome import Outcome
from mocosearch.images.decode import decode
from mocosearch.images.view_parameters import draw_parameters
from mocosearch.linear_evaluation import evaluate
from mocosearch.linear_evaluation.classifier import LinearClassifier
from mocosearch.linear_evaluation.examination import Examination
from mocosearch.linear_evaluation.learning import learn, learning_rate
from mocosearch.linear_evaluation.lessons import Lessons, prepare_lessons, views_of
from tests.linear_evaluation.small import BATCH, CPU, PREPROCESSING, Pooled, encoder_of, write_classes

SEED, EPOCHS = 5, 5


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOCOSEARCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> LabelledPhotos:
    return write_classes(tmp_path_factory.mktemp("set"), train=7, test=3)


def part(photos: LabelledPhotos, *, test: bool) -> LabelledPhotos:
    assert photos.held_out is not None
    return photos.selected(np.flatnonzero(photos.held_out == test))


def learned(photos: LabelledPhotos) -> tuple[LinearClassifier, list[float]]:
    lessons = lessons_of(photos)
    classifier = LinearClassifier(encoder_of(), torch.from_numpy(lessons.labels), 3, seed=SEED)
    epochs = learn(classifier, lessons, epochs=EPOCHS, progress=lambda done, total: None, stop=lambda: False)
    return classifier, list(epochs)


def lessons_of(photos: LabelledPhotos) -> Lessons:
    learned_from = part(photos, test=False)
    return prepare_lessons(
        learned_from, encoder_of(), batch=BATCH, seed=SEED, workers=0, progress=lambda done, total: None
    )


def evaluated(photos: LabelledPhotos, network: nn.Module | None = None, *, seed: int = SEED) -> Outcome:
    return evaluate(photos, encoder_of(network), epochs=EPOCHS, batch=BATCH, seed=seed, workers=0)


class Reference:
    """What `main_lincls.py` does, in plain PyTorch and torchvision; only the random numbers are ours."""

    def __init__(self, photos: LabelledPhotos) -> None:
        learned_from = part(photos, test=False)
        self.images = [np.array(Image.open(path)) for path in learned_from.paths]
        self.labels = torch.from_numpy(learned_from.labels)
        self.network = Pooled().eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.fc = nn.Linear(6, 3)
        torch.manual_seed(randomness.seed_of(SEED))
        self.fc.weight.data.normal_(mean=0.0, std=0.01)
        self.fc.bias.data.zero_()
        self.correct: list[int] = []  # of each epoch

    def train(self) -> None:
        optimizer = torch.optim.SGD(self.fc.parameters(), lr=30, momentum=0.9, weight_decay=0)
        for epoch in range(EPOCHS):
            for group in optimizer.param_groups:
                group["lr"] = 30 * (0.1 if epoch >= 3 else 1) * (0.1 if epoch >= 4 else 1)  # 60% and 80% of 5
            order = torch.from_numpy(randomness.permutation(SEED, epoch, size=len(self.images)))
            self.correct.append(0)
            for ids in order.split(BATCH):  # 8, 8 and 5
                logits = self.fc(self.features(torch.stack([self.view(int(id), epoch) for id in ids])))
                loss = nn.CrossEntropyLoss()(logits, self.labels[ids])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.correct[-1] += int((logits.argmax(1) == self.labels[ids]).sum())

    def view(self, id: int, epoch: int) -> Tensor:
        """Crop between 8% and all of the photo, resize to the encoder's input, mirror half of them, normalize."""
        image = torch.from_numpy(self.images[id]).permute(2, 0, 1) / 255
        drawn = draw_parameters(
            views_of(PREPROCESSING), np.array([image.shape[1:]]), seed=SEED, epoch=epoch, ids=np.array([id]), view=0
        )
        view = tv.resized_crop(image, *drawn.boxes[0].tolist(), [16, 16], antialias=True)
        return tv.normalize(view.flip(2) if drawn.flip[0] else view, PREPROCESSING.mean, PREPROCESSING.std)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        dtype = autocast_dtype(CPU)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            return self.network(images.contiguous(memory_format=torch.channels_last)).float()


def test_every_step_is_that_of_the_authors_script_in_plain_pytorch(photos: LabelledPhotos) -> None:
    classifier, of_crops = learned(photos)
    reference = Reference(photos)
    reference.train()
    assert reference.fc.weight.abs().max() > 1  # a learning rate of 30 leads far from the first weights
    torch.testing.assert_close(classifier.fc.weight, reference.fc.weight, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(classifier.fc.bias, reference.fc.bias, rtol=1e-4, atol=1e-3)
    assert of_crops == pytest.approx([correct / 21 for correct in reference.correct])


def test_the_views_are_random_resized_crops_and_flips_and_nothing_else() -> None:
    sizes = np.full((4000, 2), 100)
    drawn = draw_parameters(views_of(PREPROCESSING), sizes, seed=0, epoch=0, ids=np.arange(4000), view=0)
    area = drawn.boxes[:, 2:].prod(axis=1) / 100**2
    assert area.min() < 0.1 < 0.95 < area.max()
    assert area.min() == pytest.approx(0.08, abs=0.01)
    assert drawn.flip.mean() == pytest.approx(0.5, abs=0.05)
    assert not drawn.jitter.any()
    assert not drawn.grayscale.any()
    assert not drawn.blur.any()


def test_the_learning_rate_is_30_and_a_tenth_from_60_and_from_80_epochs_on() -> None:
    assert [learning_rate(epoch, 100) for epoch in range(100)] == pytest.approx([30.0] * 60 + [3.0] * 20 + [0.3] * 20)


def test_the_score_is_that_of_the_last_epoch_on_photos_seen_as_the_encoder_sees_them(photos: LabelledPhotos) -> None:
    outcome = evaluated(photos)
    classifier, of_crops = learned(photos)
    scored = part(photos, test=True)
    seen = torch.stack([PREPROCESSING.prepare(Image.open(path)) for path in scored.paths]) / 255
    told = classifier.fc(classifier.features(tv.normalize(seen, [*PREPROCESSING.mean], [*PREPROCESSING.std]))).argmax(1)
    expected = told.numpy() == scored.labels
    (figure,) = outcome.figures
    assert figure.of_photos is not None
    assert figure.of_photos.tolist() == expected.astype(float).tolist()
    assert figure.value == expected.mean() > 0.7 > 2 * figure.chance == pytest.approx(2 / 3)
    of_test, of_training = outcome.curves
    assert of_training.y.tolist() == of_crops
    assert of_test.y[-1] == figure.value
    assert of_test.x.tolist() == of_training.x.tolist() == [1, 2, 3, 4, 5]
    assert outcome.facts.items() >= {"train": 21, "test": 9, "steps": 15, "batch": 8, "skipped": 0}.items()
    assert outcome.notices == ("5 epochs instead of the paper's 100", "batches of 8 photos instead of the paper's 256")


def test_the_features_that_are_scored_are_of_the_normalized_photos(photos: LabelledPhotos) -> None:
    classifier, scored = learned(photos)[0], part(photos, test=True)
    decoded = [decode(path, short_side=PREPROCESSING.resize).image for path in scored.paths]
    seen = torch.stack([PREPROCESSING.prepare(image) for image in decoded]) / 255
    expected = classifier.features(tv.normalize(seen, [*PREPROCESSING.mean], [*PREPROCESSING.std]))
    examination = Examination.prepare(scored, classifier, lambda done, total: None)
    torch.testing.assert_close(examination.features, expected)
    assert examination.labels.tolist() == scored.labels.tolist()


def test_the_seed_decides_and_nothing_else(photos: LabelledPhotos) -> None:
    first, again, other = evaluated(photos), evaluated(photos), evaluated(photos, seed=SEED + 1)
    assert [curve.y.tolist() for curve in first.curves] == [curve.y.tolist() for curve in again.curves]
    assert first.curves[1].y.tolist() != other.curves[1].y.tolist()


def test_the_backbone_stays_in_eval_mode_whatever_is_asked_for(photos: LabelledPhotos) -> None:
    classifier, _ = learned(photos)
    classifier.check_frozen()
    assert not any(module.training for module in classifier.train().modules())
    images = torch.randn(4, 3, 16, 16)
    together = classifier.features(images)
    torch.testing.assert_close(together[:1], classifier.features(images[:1]))  # no statistics of the batch
    assert [name for name, parameter in classifier.named_parameters() if parameter.requires_grad] == [
        "fc.weight",
        "fc.bias",
    ]


class Counting(Pooled):
    """A network with a state that changes at each use, in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("uses", torch.zeros((), dtype=torch.int64))

    def forward(self, images: Tensor) -> Tensor:
        self.uses += 1
        return super().forward(images)


def test_a_network_that_changes_is_refused(photos: LabelledPhotos) -> None:
    with pytest.raises(NotFrozen, match=r"\(uses, 1 of 8 tensors\)"):
        evaluated(photos, Counting())


def test_one_bit_of_a_backbone_is_a_change(photos: LabelledPhotos) -> None:
    encoder = encoder_of()
    encoder.network.conv.bias[0] = 0.0
    classifier = LinearClassifier(encoder, torch.zeros(1, dtype=torch.int64), 2, seed=0)
    classifier.check_frozen()
    classifier.backbone.conv.bias[0] = -0.0  # equal, but not the same
    with pytest.raises(NotFrozen, match=r"conv\.bias"):
        classifier.check_frozen()


class Huge(Pooled):
    """A network whose features are finite but hardly."""

    factor = 1e30

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * self.factor


class Infinite(Huge):
    factor = float("inf")


def test_features_that_no_classifier_can_learn_from_are_refused_in_words(photos: LabelledPhotos) -> None:
    with pytest.raises(Unscorable, match="loss became infinite"):
        evaluated(photos, Huge())
    with pytest.raises(BadCheckpoint, match="not finite"):
        evaluated(photos, Infinite())


def test_without_a_test_part_a_fifth_of_every_class_is_held_out(photos: LabelledPhotos) -> None:
    outcome = evaluated(replace(photos, held_out=None))
    assert (outcome.facts["train"], outcome.facts["test"]) == (24, 6)


def test_photos_that_cannot_be_read_are_left_out_and_counted(tmp_path: Path) -> None:
    photos = write_classes(tmp_path, train=4, test=2)
    photos.paths[0].write_bytes(b"no photo")  # of the training part
    photos.paths[7].unlink()
    photos.paths[4].write_bytes(b"no photo")  # of the test part
    outcome = evaluated(photos)
    assert outcome.facts.items() >= {"train": 10, "test": 5, "skipped": 3}.items()
    assert "3 photos cannot be read and are left out: " in outcome.notices[0]
    rest = photos.selected(np.delete(np.arange(18), [0, 4, 7]))
    assert outcome.figures[0].value == evaluated(rest).figures[0].value


def test_photos_of_a_class_that_is_nowhere_to_learn_from_count_as_wrong_and_are_told_of(photos: LabelledPhotos) -> None:
    assert photos.held_out is not None
    outcome = evaluated(replace(photos, held_out=photos.held_out | (photos.labels == 1)))
    of_photos = outcome.figures[0].of_photos
    assert of_photos is not None
    assert of_photos[3:13].tolist() == [0] * 10
    assert outcome.figures[0].chance == pytest.approx(3 / 16)  # of two equal classes either one may be named
    assert outcome.notices[-1] == (
        "10 of the scored photos are of a class without photos to learn from, which counts as wrong."
    )


def test_fewer_photos_than_a_batch_are_one_batch(photos: LabelledPhotos) -> None:
    outcome = evaluate(photos, encoder_of(), epochs=2, workers=0)
    assert outcome.facts.items() >= {"batch": 21, "steps": 2}.items()


def test_what_cannot_be_evaluated_is_refused(tmp_path: Path) -> None:
    photos = write_classes(tmp_path, train=2, test=1)
    of_one = photos.selected(np.array([0, 1, 2, 5]))  # two of class 0 to learn from, classes 0 and 1 to be scored
    with pytest.raises(Unscorable, match="all are of one"):
        evaluated(of_one)
    for path in part(photos, test=True).paths:
        path.write_bytes(b"no photo")
    with pytest.raises(Unscorable, match="None of the 3 photos to score"):
        evaluated(photos)


def test_who_asks_to_stop_is_heard_while_photos_are_read_and_between_steps(photos: LabelledPhotos) -> None:
    done: list[tuple[str, int, int]] = []
    encoder = encoder_of()

    def evaluated_until(what: str) -> None:
        done.clear()
        evaluate(
            photos,
            encoder,
            epochs=EPOCHS,
            batch=BATCH,
            workers=0,
            progress=lambda *told: done.append(told),
            stop=lambda: bool(done) and done[-1][0] == what,
        )

    for what in ("Reading photos", "Training"):
        with pytest.raises(Interrupted, match="not kept"):
            evaluated_until(what)
        assert done[-1][0] == what
    assert done[-1] == ("Training", 2, 15)
