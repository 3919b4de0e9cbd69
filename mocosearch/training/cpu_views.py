"""The views of a step made on the CPU, by whichever process is asked to."""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from mocosearch.images.packed import Pixels
from mocosearch.images.views import view_on_cpu
from mocosearch.training.batch_order import BatchOrder, Crops


@dataclass(frozen=True)
class CpuViews:
    """Makes the views of a step: the same bits in every process, since one thread makes them."""

    crops: Crops

    def __call__(self, step: int, buffer: Pixels) -> None:
        """Write all views of a step to `buffer`."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            order = self.crops.order
            views = zip(as_views(buffer, order, step), order.parameters(step), strict=True)
            for out, parameters in views:
                view_on_cpu(self.crops.of_view(step, parameters), parameters, order.views, out.permute(0, 2, 3, 1))
        finally:
            torch.set_num_threads(threads)


def views_bytes(order: BatchOrder) -> int:
    """Return the size of all views of a whole batch."""
    return 4 * 3 * order.views_per_image * order.images * order.views.crop**2


def as_views(buffer: Pixels, order: BatchOrder, step: int) -> list[Tensor]:
    """See the first bytes of `buffer` as the float32 views of a step, (B, 3, crop, crop) each, channels last."""
    size = order.views.crop
    shape = (order.views_per_image, len(order.ids(step)), size, size, 3)
    values = torch.from_numpy(buffer).view(torch.float32)[: prod(shape)]
    return list(values.view(shape).permute(0, 1, 4, 2, 3))
