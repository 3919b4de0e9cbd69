"""Named downloads against a local server: whole and as stated, or nothing at all."""

import hashlib
import http.server
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mocosearch.encoders import downloads, load_encoder
from mocosearch.encoders.downloads import MIRROR, PUBLISHED, Offer, Published, fetch
from mocosearch.errors import DownloadFailed
from mocosearch.nets import build_backbone, build_head
from mocosearch.user_folders import cache_folder

BODY = bytes(range(256)) * 9000  # more than two chunks
GOOD = Published("good/file.pth.tar", hashlib.md5(BODY).hexdigest()[:8], "a test")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the first part of the path."""

    body = BODY
    requests: list[str]

    def do_GET(self) -> None:
        type(self).requests.append(self.path)
        kind = self.path.strip("/").partition("/")[0]
        if kind == "missing":
            self.send_error(404)
            return
        self.send_response(200)
        if kind != "unsized":
            self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body[: len(self.body) // 2] if kind == "cut" else self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[http.server.ThreadingHTTPServer]:
    monkeypatch.setattr(Handler, "requests", [], raising=False)
    monkeypatch.setenv("MOCOSEARCH_HOME", str(tmp_path / "home"))
    for kind in ("good", "missing", "cut", "unsized"):
        monkeypatch.setitem(PUBLISHED, kind, Published(f"{kind}/file.pth.tar", GOOD.hash_prefix, "a test"))
    monkeypatch.setitem(PUBLISHED, "wrong", Published("wrong/file.pth.tar", "00000000", "a test"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{server.server_port}/")
        yield server
        server.shutdown()
        thread.join()


def kept() -> list[str]:
    return sorted(path.name for path in cache_folder().rglob("*") if path.is_file() and path.suffix != ".lock")


def test_a_file_is_offered_with_size_and_license_fetched_once_and_kept(
    server: http.server.ThreadingHTTPServer,
) -> None:
    offers: list[Offer] = []
    progress: list[int] = []

    def announce(offer: Offer) -> None:
        assert progress == []
        offers.append(offer)

    path = fetch("good", announce=announce, progress=progress.append)
    assert path.read_bytes() == BODY
    [offer] = offers
    assert (offer.name, offer.size) == ("good", len(BODY))
    assert "CC-BY-NC" in offer.license
    assert offer.url.endswith("/good/file.pth.tar")
    assert progress == sorted(progress)
    assert progress[-1] == len(BODY)
    assert fetch("good", announce=offers.append) == path
    assert len(offers) == len(Handler.requests) == 1
    assert kept() == ["file.pth.tar"]


def test_a_server_that_does_not_tell_the_size_is_no_obstacle(server: http.server.ThreadingHTTPServer) -> None:
    offers: list[Offer] = []
    assert fetch("unsized", announce=offers.append).read_bytes() == BODY
    assert offers[0].size is None


@pytest.mark.parametrize(
    ("name", "message"),
    [("wrong", "not the file its publisher states"), ("cut", "bytes early"), ("missing", "the server answers 404")],
)
def test_what_is_not_whole_or_not_as_stated_leaves_nothing(
    server: http.server.ThreadingHTTPServer, name: str, message: str
) -> None:
    with pytest.raises(DownloadFailed, match=message) as caught:
        fetch(name)
    assert "\n" not in str(caught.value)
    assert kept() == []


def test_a_refused_connection_is_one_line(
    server: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DownloadFailed, match=r"license: CC-BY-NC.*refused"):
            fetch("good")
    assert kept() == []


@pytest.mark.parametrize("mirror", ["file:///etc", "nonsense", "ftp://127.0.0.1/", "http://[::1"])
def test_a_mirror_that_is_no_web_address_is_refused(
    server: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, mirror: str
) -> None:
    monkeypatch.setenv(MIRROR, mirror)
    with pytest.raises(DownloadFailed):
        fetch("good")
    assert Handler.requests == []
    assert kept() == []


def test_whoever_is_told_the_offer_can_decline_it(server: http.server.ThreadingHTTPServer) -> None:
    def decline(offer: Offer) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("good", announce=decline)
    assert kept() == []


def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(server: http.server.ThreadingHTTPServer) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("good", progress=interrupt)
    assert kept() == []
    assert fetch("good").read_bytes() == BODY


def test_what_a_killed_download_left_behind_is_removed_by_the_next(server: http.server.ThreadingHTTPServer) -> None:
    folder = cache_folder() / "encoders"
    folder.mkdir(parents=True)
    (folder / ".file.pth.tar.01234567.partial").write_bytes(BODY[:100])
    fetch("good")
    assert kept() == ["file.pth.tar"]


def test_two_at_once_fetch_it_once(server: http.server.ThreadingHTTPServer) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(fetch("good"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 4
    assert len(Handler.requests) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")
def test_a_server_whose_certificate_nobody_vouches_for_is_refused(
    server: http.server.ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *name],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv(MIRROR, f"https://127.0.0.1:{server.server_port}")
    with pytest.raises(DownloadFailed, match="certificate verify failed"):
        fetch("good")
    assert Handler.requests == []
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert fetch("good").read_bytes() == BODY


def test_an_encoder_named_by_its_download_is_fetched_and_loaded(
    server: http.server.ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {f"module.encoder_q.{n}": t for n, t in build_backbone("resnet18").state_dict().items()}
    state |= {f"module.encoder_q.fc.{n}": t for n, t in build_head("mlp", 512, 128).state_dict().items()}
    torch.save({"epoch": 800, "arch": "resnet18", "state_dict": state}, tmp_path / "published")
    body = (tmp_path / "published").read_bytes()
    monkeypatch.setattr(Handler, "body", body)
    published = Published("good/small.pth.tar", hashlib.md5(body).hexdigest()[:8], "ImageNet-1M")
    monkeypatch.setitem(PUBLISHED, "moco-v2-800ep", published)
    offers: list[Offer] = []
    encoder = load_encoder("moco-v2-800ep", torch.device("cpu"), announce=offers.append)
    assert [offer.name for offer in offers] == ["moco-v2-800ep"]
    assert "ImageNet-1M, moco-v2-800ep" in encoder.card.description
    assert "moco_v2, 800 epochs" in encoder.card.description


def test_the_published_files_are_the_ones_of_the_authors_page() -> None:
    assert {name: published.hash_prefix for name, published in PUBLISHED.items()} == {
        "moco-v1-200ep": "b251726a",
        "moco-v2-200ep": "59fd9945",
        "moco-v2-800ep": "a04e12f8",
    }
    assert downloads._BASE.startswith("https://")
    assert PUBLISHED["moco-v2-800ep"].path == "moco_v2_800ep/moco_v2_800ep_pretrain.pth.tar"
