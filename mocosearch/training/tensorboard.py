"""Scalars for TensorBoard, which comes with the extra of that name."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from mocosearch.errors import MissingExtra


def check_tensorboard() -> None:
    """Raise MissingExtra where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise MissingExtra(
            "TensorBoard is not installed: run `pip install 'mocosearch[tensorboard]'`, or leave out --tensorboard."
        )


class Scalars:
    """Event files in `folder`; what is there of `first_step` and later is dropped, for a resumed run repeats it."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # only here: the package is optional

        self._writer = SummaryWriter(folder, purge_step=first_step)

    def add(self, group: str, row: Mapping[str, float]) -> None:
        """Add what `row` holds besides its step, as scalars `group/name`."""
        for name, value in row.items():
            if name not in ("step", "epoch"):
                self._writer.add_scalar(f"{group}/{name}", value, row["step"])

    def close(self) -> None:
        """Write out what is buffered."""
        self._writer.close()
