import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mocosearch.distributed import seeded_permutation
from mocosearch.methods import MoCo
from mocosearch.methods.dictionaries import Queue
from mocosearch.nets import ProjectedEncoder
from mocosearch.training.compilation import can_compile, compile_networks

CPU = torch.device("cpu")


def test_compiled_networks_give_the_same_loss_and_the_same_checkpoint() -> None:
    if not can_compile(CPU):
        pytest.skip("there is no C++ compiler here")
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 8))
    encoder = ProjectedEncoder(backbone, nn.Linear(8, 4))
    eager = MoCo(encoder, Queue(8, 4), momentum=0.9, temperature=0.2, permutation=seeded_permutation(0))
    compiled = copy.deepcopy(eager)
    compile_networks(compiled)
    views, ids = [torch.rand(4, 3, 8, 8), torch.rand(4, 3, 8, 8)], torch.arange(4)
    losses = []
    for method in (eager, compiled):
        loss, _ = method(views, ids)
        loss.backward()
        method.after_step()
        losses.append(loss)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(encoder.head.weight.grad, compiled.query_encoder.head.weight.grad)
    assert list(compiled.state_dict()) == list(eager.state_dict())
    eager.load_state_dict(compiled.state_dict())
    copy.deepcopy(compiled.query_encoder)  # as is done to look at its health


def test_without_a_compiler_it_is_said_that_nothing_can_be_compiled(tmp_path: Path) -> None:
    code = (
        "import torch; from mocosearch.training.compilation import can_compile; print(can_compile(torch.device('cpu')))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environment |= {"PATH": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
