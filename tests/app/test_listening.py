"""Which addresses are listened at, and what they are called."""

import socket

import pytest

from mocosearch.errors import CannotServe
from mocosearch_app.safety.listening import Address, listen


def test_the_body_of_an_answer_does_not_wait_for_its_head_to_be_acknowledged() -> None:
    with listen(Address.of("127.0.0.1"), None) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["example.com", "http://127.0.0.1", "127.0.0.1:80", "", "256.1.1.1"])
def test_what_is_no_address_is_refused_without_asking_anybody_for_it(host: str) -> None:
    with pytest.raises(CannotServe, match="IP address"):
        Address.of(host)


@pytest.mark.parametrize("name", ["http://photos.example", "photos.example:443", "photos.example/", "a b", ""])
def test_a_name_with_more_than_a_name_in_it_is_refused(name: str) -> None:
    with pytest.raises(CannotServe, match="without http:// or port"):
        Address.of("127.0.0.1", [name])


@pytest.mark.parametrize(
    ("host", "local", "url"),
    [
        ("localhost", True, "http://127.0.0.1:80"),
        ("127.8.0.1", True, "http://127.8.0.1:80"),
        ("::1", True, "http://[::1]:80"),
        ("[::1]", True, "http://[::1]:80"),
        ("192.168.1.20", False, "http://192.168.1.20:80"),
        ("0.0.0.0", False, f"http://{socket.gethostname().lower()}:80"),
        ("::", False, f"http://{socket.gethostname().lower()}:80"),
    ],
)
def test_addresses_of_this_machine_alone_are_told_from_others_and_shown_as_one_opens_them(
    host: str, local: bool, url: str
) -> None:
    address = Address.of(host)
    assert address.is_local == local
    assert address.url(80) == url


def test_an_address_of_another_machine_is_refused_in_words() -> None:
    with pytest.raises(CannotServe, match="no address of this machine"):
        listen(Address.of("192.0.2.1"), None)


@pytest.mark.parametrize(
    ("host", "names", "reached_at"),
    [
        ("127.0.0.1", [], None),
        ("127.0.0.1", ["photos.example", "a.example"], "a.example and photos.example"),
        ("0.0.0.0", [], "0.0.0.0"),
        ("0.0.0.0", ["photos.example"], "photos.example"),
    ],
)
def test_others_are_there_at_another_address_and_behind_a_proxy(
    host: str, names: list[str], reached_at: str | None
) -> None:
    assert Address.of(host, names).reached_at == reached_at
