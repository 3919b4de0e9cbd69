"""`mocosearch serve` as a command. What the page does is tested in tests/app."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, EncoderIdentity, FileStamp

LIGHT = "import sys; from mocosearch.cli import main\ntry: main(['serve', '--help'])\nexcept SystemExit: pass\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MOCOSEARCH_HOME": str(tmp_path / "home")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A library of three photos whose encoder got lost."""
    root = tmp_path / "photos"
    root.mkdir()
    vectors = np.eye(8, dtype=np.float32)[:3]
    photos = []
    for name, vector in zip(("red", "green", "blue"), vectors, strict=True):
        path = root / f"{name}.png"
        Image.new("RGB", (30, 20), name).save(path)
        stamp = FileStamp(path.name.encode(), path.stat().st_size, path.stat().st_mtime_ns)
        photos.append(EmbeddedPhoto(stamp, name.encode().ljust(32), 30, 20, None, vector))
    with ImageIndex.create(root / ".mocosearch", root=root, encoder=EncoderIdentity("f" * 16, 8, "lost")) as index:
        index.commit(photos)
    return root


def start(
    environment: dict[str, str], *arguments: str, cwd: Path | None = None, stdin: int | None = None
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "mocosearch", "serve", *arguments]
    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )


def test_the_help_loads_neither_torch_nor_gradio_nor_faiss() -> None:
    check = LIGHT + "print([name for name in ('torch', 'gradio', 'faiss', 'fastapi') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert "--port" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_address_is_all_that_goes_to_stdout_and_a_signal_ends_it(
    root: Path, environment: dict[str, str], number: int, status: int
) -> None:
    process = start(environment, str(root))
    assert process.stdout
    address = process.stdout.readline()
    assert address.startswith("http://127.0.0.1:")
    process.send_signal(number)
    rest, words = process.communicate(timeout=60)
    assert process.returncode == status
    assert rest == ""
    assert "(as named): 3 photos" in words
    assert ("Stopped." in words) == (number == signal.SIGINT)
    assert "Traceback" not in words


def test_a_lost_encoder_is_one_line_and_the_page_is_served(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, str(root))
    assert process.stdout
    assert process.stderr
    address = process.stdout.readline().strip()
    assert httpx.get(address, trust_env=False).status_code == 200
    assert "Library" in process.stderr.readline()
    assert "will not work" in process.stderr.readline()
    process.terminate()
    _, words = process.communicate(timeout=60)
    assert words == ""
    assert process.returncode == 0


def test_sigterm_while_it_starts_ends_it_with_status_0(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, str(root))
    assert process.stderr
    assert "Library" in process.stderr.readline()
    process.terminate()
    assert process.wait(60) == 0


def test_without_a_folder_the_library_of_the_current_folder_is_served(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, cwd=root)
    assert process.stderr
    words = process.stderr.readline()
    process.kill()
    process.communicate()
    assert "(of the current folder): 3 photos" in words


def test_without_any_library_one_line_says_what_to_do(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mocosearch", "serve"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "mocosearch index" in done.stderr


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_a_port_that_is_none_is_a_usage_error(port: str, environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mocosearch", "serve", "--port", port],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2


def test_who_comes_through_a_proxy_is_let_in_with_a_password_only(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, str(root), "--name", "photos.example")
    _, words = process.communicate(timeout=60)
    assert process.returncode == 1
    last = words.splitlines()[-1]
    assert "photos.example: set a password with --password" in last
    assert "--insecure" in last


def test_the_password_is_asked_for_and_not_shown(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, str(root), "--host", "0.0.0.0", "--password", stdin=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    process.stdin.write("correct horse\n")
    process.stdin.flush()
    address = process.stdout.readline().removeprefix("Password: ").strip()
    port = address.rpartition(":")[2]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/api/folders").status_code == 401
        assert client.get("/api/folders", headers={"Authorization": "Bearer correct horse"}).status_code == 200
    process.terminate()
    _, words = process.communicate(timeout=60)
    assert "unencrypted" in words
    assert "correct horse" not in words


def test_a_folder_behind_password_is_not_taken_for_one(root: Path, environment: dict[str, str]) -> None:
    process = start(environment, "--password", str(root))
    _, words = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "DIR first" in words
