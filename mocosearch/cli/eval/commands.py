"""`mocosearch eval`: how good is an encoder, by the field's own protocols."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mocosearch.cli.eval.encoders import embed_all, embed_views_of_all, opened_encoders
from mocosearch.cli.eval.options import Choices, labels_option, protocol_options
from mocosearch.cli.eval.output import tell
from mocosearch.cli.eval.photos import find, labelled, of_pairs, say_how_many, selected
from mocosearch.cli.library_settings import chosen_search, search_options
from mocosearch.cli.numbers import NumberRange

if TYPE_CHECKING:
    from mocosearch.evaluation.retrieval.relevance import Relevance


@click.group("eval")
def command() -> None:
    """Score an encoder, or several side by side.

    The class of a photo is the folder that it lies in, or what a CSV file says; folders train and test (or val) are
    parts of one set. Labels score, and teach the linear classifier; the encoder never sees them. health needs none.
    """


@command.command("knn")
@protocol_options
@labels_option
@click.option("-k", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="Neighbors that vote.")
@click.option(
    "--temperature",
    metavar="T",
    type=NumberRange(min=0, min_open=True),
    default=0.07,
    show_default=True,
    help="A neighbor votes with exp(cosine / T).",
)
def knn(choices: Choices, labels: Path | None, k: int, temperature: float) -> None:
    """Name each photo of DIR by a vote of its nearest neighbors.

    Precision@10 is the share of the ten nearest that are of the photo's own class. Near is meant by the vectors as the
    encoder gives them; what a library makes of them, `eval retrieval` tells.
    """
    photos = labelled(choices.folder, labels)
    encoders = opened_encoders(choices)
    from mocosearch.evaluation.knn import evaluate_knn

    common = embed_all(photos.paths, encoders)
    photos = selected(photos, common)
    outcomes = [
        evaluate_knn(vectors, photos.labels, photos.held_out, k=k, temperature=temperature)
        for vectors in common.vectors
    ]
    tell(choices, encoders, outcomes, photos, common.skipped)


@command.command("retrieval")
@protocol_options
@labels_option
@click.option(
    "--pairs",
    metavar="FILE.csv",
    type=click.Path(path_type=Path),
    help="Two columns of paths of photos that belong together, instead of classes.",
)
@search_options
def retrieval(choices: Choices, labels: Path | None, pairs: Path | None, **flags: Any) -> None:
    """Search with each photo of DIR, and score what it finds.

    Photos belong together when they are of one class, or a pair. All are ranked exactly by the encoder's vectors, and
    asked of a temporary index too, whitened as a new library is: the rows `index ...` tell what people see, and what
    whitening, --dim, cells and compression gain or lose.
    """
    if labels and pairs:
        raise click.UsageError("--labels and --pairs exclude each other: name one.")
    photos = labelled(choices.folder, labels) if pairs is None else of_pairs(choices.folder, pairs)
    encoders = opened_encoders(choices)
    from mocosearch.evaluation.labels.labelled import LabelledPhotos
    from mocosearch.evaluation.retrieval.protocol import evaluate_retrieval
    from mocosearch.evaluation.retrieval.relevance import Pairs, SameLabel
    from mocosearch.evaluation.retrieval.through_index import check_settings
    from mocosearch_index.records import SearchSettings

    settings = chosen_search(SearchSettings(), flags)
    for named in encoders:  # before photos are embedded for minutes
        check_settings(settings, named.encoder.dim)
    common = embed_all(photos.paths, encoders)
    photos = selected(photos, common)
    held_out = None
    relevance: Relevance
    if isinstance(photos, LabelledPhotos):
        relevance, held_out = SameLabel(photos.labels), photos.held_out
    else:
        relevance = Pairs(photos.pairs, len(photos.paths))
    outcomes = [evaluate_retrieval(vectors, relevance, held_out, index_settings=settings) for vectors in common.vectors]
    tell(choices, encoders, outcomes, photos, common.skipped)


@command.command("linear")
@protocol_options
@labels_option
@click.option("--fast", is_flag=True, help="Embed each photo once, and learn from the vectors.")
@click.option("--epochs", metavar="N", type=click.IntRange(min=1), help="Instead of the paper's 100.")
@click.option(
    "--devices", metavar="N", type=click.IntRange(min=1), help="GPUs, or CPU processes.  [default: all GPUs, or 1]"
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the split, the start and the crops.",
)
def linear(
    choices: Choices, labels: Path | None, fast: bool, epochs: int | None, devices: int | None, seed: int
) -> None:
    """Train a linear classifier on the frozen network, and score it.

    As in the MoCo paper: 100 epochs of crops and mirrored photos, SGD at learning rate 30. --fast takes seconds: it
    tries 24 settings at once on the vectors, and chooses by a part of the training part.

    Scored is the test part, or else a fifth of every class. Nothing is chosen by it.
    """
    if fast and (epochs or devices):
        raise click.UsageError("--epochs and --devices are for the paper's protocol; leave them out with --fast.")
    photos = labelled(choices.folder, labels)
    if fast:
        encoders = opened_encoders(choices)
        from mocosearch.evaluation.linear.probe import evaluate_linear

        common = embed_all(photos.paths, encoders)
        photos = selected(photos, common)
        outcomes = [evaluate_linear(vectors, photos.labels, photos.held_out, seed=seed) for vectors in common.vectors]
        tell(choices, encoders, outcomes, photos, common.skipped)
        return
    from mocosearch.cli.eval.paper import by_the_paper

    encoders = opened_encoders(choices)
    say_how_many(photos)
    tell(choices, encoders, by_the_paper(photos, encoders, epochs, devices, seed), photos, [])


@command.command("health")
@protocol_options
def health(choices: Choices) -> None:
    """Tell how the vectors of any photos lie in their space.

    \b
    effective rank       directions that are used (RankMe): more is better
    uniformity           how evenly vectors fill the space: less is better
    feature spread       near 0 when all vectors are alike
    alignment            how far two augmented views of a photo lie apart
    relative alignment   the same, by how far photos lie apart: less is better
    neighbor stability   nearest photos that stay when a photo is augmented

    No labels, and so no word on what the encoder is good for.
    """
    photos = find(choices.folder)
    encoders = opened_encoders(choices)
    from mocosearch.evaluation.health import evaluate_health

    common = embed_all(photos.paths, encoders)
    photos = selected(photos, common)
    views = embed_views_of_all(photos.paths, encoders)
    outcomes = [evaluate_health(*pair) for pair in zip(common.vectors, views, strict=True)]
    tell(choices, encoders, outcomes, photos, common.skipped)
