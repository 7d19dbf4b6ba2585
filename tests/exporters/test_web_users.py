"""Basic authentication, and requests that need none."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import bcrypt
import pytest

from streameval.exporters.web.auth import Admission, WebUsers
from tests.exporters.guarded import Guarded, guarded, hashed, users
from tests.exporters.pictures import health, picture

T = TypeVar("T")

PATHS = ("/", "/metrics", "/api/v1/metrics", "/static/page.css", "/no")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path / "web.yml", users(ana="s3cret", bob="another")) as site:
        yield site


def header(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_a_password(site: Guarded, path: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="streameval", charset="UTF-8"'
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [
        ("ana", "s3cret", 200),
        ("bob", "another", 200),
        ("ana", "another", 401),
        ("ana", "", 401),
        ("", "", 401),
        ("eve", "s3cret", 401),
        ("ana", "s3cret ", 401),
        ("Ana", "s3cret", 401),
    ],
)
def test_a_user_needs_the_right_password(
    site: Guarded, user: str, password: str, status: int
) -> None:
    for _ in range(2):
        assert site.get(auth=(user, password)).status_code == status


@pytest.mark.parametrize(
    "value", ["", "Basic", "Basic !", "Basic YW5h", "Bearer x", "Basic YW5h OnMzY3JldA=="]
)
def test_malformed_credentials_are_rejected(site: Guarded, value: str) -> None:
    assert site.get(headers={"Authorization": value}).status_code == 401


def test_health_checks_need_no_password_and_tell_the_status_alone(tmp_path: Path) -> None:
    with guarded(tmp_path / "web.yml", users(ana="x"), prefix="/eval") as site:
        assert site.get("/-/healthy").status_code == 401
        assert site.get("/eval/-/healthy").status_code == 200
        problem = "the broker kafka-7.internal:9092 does not answer."
        for ready, status, word in ((True, 200, "Warning"), (False, 503, "Not ready")):
            site.snapshot = picture(state=health(ready=ready, trouble=problem))
            answer = site.get("/eval/-/ready")
            assert (answer.status_code, answer.text) == (status, f"{word}.\n")


@pytest.fixture
def known() -> WebUsers:
    """A user."""
    return WebUsers("web.yml", {"ana": hashed("s3cret")})


def _awaited(answer: Coroutine[Any, Any, T]) -> T:
    """Its result, from a loop in another thread: browsers of other tests keep one in this."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, answer).result()


def verdict(known: WebUsers, password: str, user: str = "ana") -> Admission:
    return _awaited(known.verdict(header(user, password)))


def flood(known: WebUsers, count: int, address: str = "") -> list[asyncio.Future[Admission]]:
    """Checks of so many wrong passwords, which wait from the next step of the loop on."""
    return [
        asyncio.ensure_future(known.verdict(header("ana", f"wrong {number}"), address))
        for number in range(count)
    ]


def test_a_hash_of_htpasswd_is_accepted() -> None:
    made = hashed("s3cret").replace("$2b$", "$2y$", 1)
    assert verdict(WebUsers("web.yml", {"ana": made}), "s3cret") is Admission.ADMITTED


def test_a_long_password_is_cut_as_by_bcrypt() -> None:
    users_with_long = WebUsers("web.yml", {"ana": hashed("x" * 72)})
    assert verdict(users_with_long, "x" * 100) is Admission.ADMITTED
    assert verdict(users_with_long, "x" * 71) is Admission.REFUSED


class Checks:
    """bcrypt's check with the number and threads of its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hashes: list[bytes] = []
        self.threads: set[str] = set()
        self._check = bcrypt.checkpw
        monkeypatch.setattr(bcrypt, "checkpw", self)

    def __call__(self, password: bytes, expected: bytes) -> bool:
        self.hashes.append(expected)
        self.threads.add(threading.current_thread().name)
        return self._check(password, expected)


def test_a_password_is_checked_once_and_off_the_event_loop(
    site: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Checks(monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(site.get, auth=("ana", "s3cret")) for _ in range(16)]
        assert {request.result().status_code for request in asked} == {200}
    assert len(checks.hashes) == 1
    assert "streameval-http" not in checks.threads


@pytest.mark.parametrize("user", ["ana", "bob", "eve"])
def test_a_refusal_costs_the_same_whatever_the_user(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    slow = bcrypt.hashpw(b"x", bcrypt.gensalt(6)).decode()
    both = WebUsers("web.yml", {"ana": hashed("s3cret"), "bob": slow})
    rounds: list[int] = []
    real = {name: getattr(bcrypt, name) for name in ("checkpw", "hashpw")}

    def counted(name: str) -> Callable[[bytes, bytes], object]:
        def call(password: bytes, salt: bytes) -> object:
            rounds.append(2 ** int(salt[4:6]))
            return real[name](password, salt)

        return call

    for name in real:
        monkeypatch.setattr(bcrypt, name, counted(name))
    assert verdict(both, "wrong", user=user) is Admission.REFUSED
    assert sum(rounds) == 2**6


def test_waiting_checks_are_limited_and_cached_users_do_not_wait(known: WebUsers) -> None:
    async def ask() -> tuple[list[Admission], Admission]:
        await known.verdict(header("ana", "s3cret"))
        waiting = flood(known, 100)
        await asyncio.sleep(0)
        cached = await known.verdict(header("ana", "s3cret"))
        return await asyncio.gather(*waiting), cached

    verdicts, cached = _awaited(ask())
    assert cached is Admission.ADMITTED
    assert verdicts.count(Admission.BUSY) == 36
    assert verdicts.count(Admission.REFUSED) == 64


def test_a_new_scraper_is_checked_before_a_flood_from_elsewhere(known: WebUsers) -> None:
    async def ask() -> tuple[Admission, int]:
        guesses = flood(known, 500, "192.0.2.1")
        assert await guesses[0] is Admission.REFUSED
        scraped = await known.verdict(header("ana", "s3cret"), "192.0.2.2")
        waiting = sum(not task.done() for task in guesses)
        await asyncio.gather(*guesses)
        return scraped, waiting

    scraped, waiting = _awaited(ask())
    assert scraped is Admission.ADMITTED
    assert waiting > 50


def test_a_scraper_at_the_address_of_a_flood_loses_at_most_one_scrape(known: WebUsers) -> None:
    async def ask() -> list[Admission]:
        guesses = flood(known, 500)
        await asyncio.sleep(0)
        scrapes = [await known.verdict(header("ana", "s3cret")) for _ in range(12)]
        assert not all(task.done() for task in guesses)
        await asyncio.gather(*guesses)
        return scrapes

    first, *others = _awaited(ask())
    assert first is Admission.BUSY
    assert others == [Admission.ADMITTED] * 11


def test_the_address_refused_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streameval.exporters.web.auth._MAX_ADDRESSES", 2)
    known, checked = WebUsers("web.yml", {"ana": hashed("s3cret")}), list[str]()

    async def ask(address: str, password: str) -> None:
        await known.verdict(header("ana", password), address)
        checked.append(address)

    async def ask_all() -> None:
        for number, address in enumerate(("twice", "once", "twice", "new")):
            await ask(address, f"wrong {number}")
        await asyncio.gather(ask("twice", "another"), ask("once", "yet another"))

    _awaited(ask_all())
    # "once" is forgotten, so nothing is held against it.
    assert checked[-2:] == ["once", "twice"]


def test_a_refused_password_is_not_checked_again(
    site: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = Checks(monkeypatch)
    statuses = [site.get(auth=("ana", "wrong")).status_code for _ in range(5)]
    assert statuses == [401] * 5
    assert len(checks.hashes) == 1


def test_a_client_that_goes_away_does_not_cancel_the_check_of_others(known: WebUsers) -> None:
    async def ask() -> Admission:
        leaving, staying = (
            asyncio.ensure_future(known.verdict(header("ana", "s3cret"))) for _ in range(2)
        )
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert _awaited(ask()) is Admission.ADMITTED


def test_no_password_is_kept(known: WebUsers) -> None:
    assert verdict(known, "s3cret") is Admission.ADMITTED
    assert "s3cret" not in repr(vars(known))
