"""What looks like a secret is taken out, and what does not stays."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard
from orchtrace_otel.content.redaction import REDACTED, Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = [
    "Authorization: Bearer CANARYabcdef",
    "authorization: Basic CANARYdXNlcjpw",
    '{"password": "CANARY with spaces"}',
    r"{\"password\": \"CANARY\"}",
    "{'api_key': 'CANARY'}",
    "postgres://user:CANARY@db/x",
    "https://CANARY@host/path",
    "https://host/path?api_key=CANARY&x=1",
    "https://host/?access_token=CANARY",
    "DB_PASSWORD=CANARY",
    "X-Api-Key: CANARY",
    "Cookie: CANARY",
    "Set-Cookie: CANARY; path=/",
    "key sk-CANARYCANARYCANARYCANARY here",
    "ghp_CANARYCANARYCANARYCANARY",
    "AKIACANARYCANARYCANA",
    "eyJCANARYCANARY.eyJCANARYCANARY.CANARY",
    "-----BEGIN RSA PRIVATE KEY-----\nCANARY\nCANARY\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nCANARY cut here",
    "token=CANARY",
    "client_secret = CANARY",
    "GET / HTTP/1.1\r\nCookie: theme=dark; sid=CANARY\r\nHost: h",
    "curl -H 'Authorization: Token CANARY' h",
    '{"Authorization": ["Token CANARY", "CANARY"]}',
    '{"credentials": {"user": "CANARY"}}',
    "{'password': b'CANARY'}",
    r"{\'password\': \'CANARY\'}",
    r"{\\\"token\\\": \\\"CANARY\\\"}",
    "postgres://user:p@CANARY@db/x",
    "x-eyJCANARYCANARY.eyJCANARYCANARY.CANARY",
]


@pytest.mark.parametrize("text", SECRETS)
def test_known_secrets_are_taken_out(text: str) -> None:
    """In headers, URLs, JSON, environment files and messages of errors."""
    assert "CANARY" not in Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "What is the secret of a good life?",
        "max_tokens: 512 and tokens: 7",
        "the token was lost",
        "a basic plan, for the bearer of this",
        "https://host/path?page=2",
        "me@example.org",
        "see sk-learn",
        "",
    ],
)
def test_what_is_no_secret_stays_the_very_text(text: str) -> None:
    """Words about secrets are none; the same object comes back, so that nothing was flagged."""
    assert Redactor().text(text) is text


def test_a_text_made_to_look_like_secrets_takes_no_time_of_the_host() -> None:
    """Beginnings of a token, a thousand times: each was sought to the end of the text."""
    began = time.process_time()
    for text in ("-eyJ", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "Cookie:", "a://b@", "password=[{"):
        Redactor().text(text * (262_144 // len(text)))
    assert time.process_time() - began < 10


def test_own_keys_patterns_and_functions_are_taken_out_too() -> None:
    """Beside what is known; the function sees what the patterns left."""
    redactor = Redactor(
        ["Customer-No"], [r"\bDE\d{4}\b", re.compile("x+", re.IGNORECASE)], str.upper
    )
    assert redactor.is_secret("customer_no")
    assert redactor.text("iban de DE1234 XX token=abc") == (
        f"IBAN DE {REDACTED.upper()} {REDACTED.upper()} TOKEN={REDACTED.upper()}"
    )


def test_what_is_known_can_be_left_alone() -> None:
    """Who says so keeps everything but the own patterns."""
    redactor = Redactor(patterns=["a"], with_known=False)
    assert (redactor.text("token=b a"), redactor.is_secret("password")) == (
        f"token=b {REDACTED}",
        False,
    )


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "function",
    [lambda text: 1 / 0, lambda text: None, lambda text: 7],
    ids=["raises", "nothing", "number"],
)
def test_a_function_that_fails_lets_nothing_through(function) -> None:
    """What it could not read may be a secret."""
    assert Redactor(function=function).text("anything") == REDACTED


class Markup(str):
    """A text with code of its own, as libraries of templates have them."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]
    __len__ = isascii = __sizeof__ = __eq__  # type: ignore[assignment]


def test_a_text_of_any_class_that_a_function_gives_back_is_a_text() -> None:
    """None of its class's code runs."""
    kept = Redactor(function=lambda text: Markup(text.replace("Acme", "x"))).text("Acme asks")
    assert (type(kept), kept) == (str, "x asks")


@pytest.mark.swallows_errors
def test_a_function_that_fails_is_named(caplog) -> None:
    """As the host's own, by the class of its error: what it says may be the secret."""
    _guard.swallowed.pop(f"{__name__}.refuse", None)
    assert Redactor(function=refuse).text("the canary") == REDACTED
    assert caplog.messages == [
        f"a redact function failed in {__name__}.refuse with LookupError and keeps nothing of the "
        "text; further failures there are only counted; the traceback is logged at DEBUG"
    ]


def test_what_a_function_calls_is_not_traced(turn_on: Callable[..., Any]) -> None:
    """Be it an agent of the host's: what that is given would be redacted by it, and so on."""
    calls: list[str] = []

    @orchtrace.agent
    def finds_names(text: str) -> str:
        calls.append(text)
        return text.replace("Ann", "[name]")

    on = turn_on(mode="SPAN_ONLY", store=None, redact=finds_names)

    @orchtrace.team
    def greet(who: str) -> str:
        return f"hello {who}"

    assert greet("Ann") == "hello Ann"
    assert "finds_names" not in on.captured.trace.to_json()
    assert "Ann" in calls
    assert "[name]" in "".join(span.to_json() for span in on.captured.spans)


def refuse(text: str) -> str:
    raise LookupError(text)
