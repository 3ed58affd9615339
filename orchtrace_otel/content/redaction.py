r"""Taking secrets out of texts, before anything is hashed, stored or put on a span.

What a name says is secret goes whole (`password`, `authorization`); in all other texts
go what looks like a secret: keys of known make, bearer tokens, user and password in a
URL, `name=value` of a secret name in a query, a header or a message of an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.instrumentation.utils import suppress_instrumentation

from orchtrace_otel._guard import asked

REDACTED: Final = "[redacted]"

KEYS: Final = frozenset(
    {
        "accesskey",
        "accesstoken",
        "apikey",
        "apitoken",
        "auth",
        "authorization",
        "authtoken",
        "bearertoken",
        "clientsecret",
        "connectionstring",
        "cookie",
        "credential",
        "credentials",
        "idtoken",
        "passphrase",
        "passwd",
        "password",
        "privatekey",
        "proxyauthorization",
        "pwd",
        "refreshtoken",
        "secret",
        "secretaccesskey",
        "secretkey",
        "sessionid",
        "sessiontoken",
        "setcookie",
        "token",
        "xapikey",
        "xauthtoken",
        "xgoogapikey",
    }
)
"""Names whose values are secret, without case, `-`, `_` and spaces."""

_ENDINGS: Final = tuple(sorted(KEYS - {"auth", "token"}))
"""So do names that end like these: `DB_PASSWORD`. A page's token is none, `HF_TOKEN` is."""

_NAME: Final = (
    r"(?:password|passwd|passphrase|pwd|secret|cookie|authorization|credentials?|"
    r"api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|client[_-]?secret|"
    r"(?:access|refresh|auth|api|id|session|bearer)[_-]?token|token)"
)
# Texts come from anywhere, and a pattern must not hang the host: a repetition that something
# has to follow is bounded, or ends where the next match could begin.
PATTERNS: Final = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.S
        ),
        REDACTED,
    ),
    (
        # A header of these names holds more than one word: `Cookie: a=b; c=d`, `Token abc`.
        re.compile(
            r"((?:authorization|cookie)\s{0,4}:\s{0,4})[^\s\"'][^\r\n\"']{0,4000}|"
            r"\b((?:bearer|basic)\s{1,4})[\w.~+/=-]{6,}",
            re.I,
        ),
        rf"\1\2{REDACTED}",
    ),
    (
        re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@]{1,500}@(?:[^\s/@\"]{1,500}@){0,4}", re.I),
        rf"\1{REDACTED}@",
    ),
    (
        re.compile(
            r"\b(?:(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|"
            r"xox[abeprs]-[\w-]{10,}|A(?:KI|SI)A[0-9A-Z]{16}|AIza[\w-]{30,}|hf_\w{20,}|"
            r"eyJ(?:(?!-eyJ)[\w-]){8,}+\.[\w-]{8,}+\.[\w-]*)"
        ),
        REDACTED,
    ),
    (
        re.compile(
            rf"({_NAME}\\{{0,8}}[\"']?\s{{0,4}}[:=]\s{{0,4}})"
            r"(b?\\{0,8}(?:\"[^\"]{0,4000}\"?|'[^']{0,4000}'?)|"
            r"[\[{][^\]}]{0,4000}[\]}]?|[^\s&,;}\"']{1,4000})",
            re.I,
        ),
        rf"\1{REDACTED}",
    ),
)
"""Known patterns, and what is put in the place of a match."""


_WHOSE: Final = "a redact function"
_COST: Final = "keeps nothing of the text"


class Redactor:
    """Takes out what may not be kept.

    Args:
        keys: Names beside the known ones whose values are secret.
        patterns: Patterns beside the known ones.
        function: Called with each text, after the patterns.
        with_known: Whether known keys and patterns are taken out.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        function: Callable[[str], str] | None = None,
        *,
        with_known: bool = True,
    ) -> None:
        own = frozenset(map(_plain, keys))
        self._keys = own | KEYS if with_known else own
        self._endings = _ENDINGS if with_known else ()
        self._patterns = [(re.compile(one), REDACTED) for one in patterns]
        if with_known:
            self._patterns += PATTERNS
        self._function = None if function is None else asked(function, _WHOSE, _COST)

    def is_secret(self, key: str) -> bool:
        """Whether the value of that name is secret.

        Example:
            >>> [Redactor().is_secret(one) for one in ("X-Api-Key", "HF_TOKEN", "page_token")]
            [True, True, False]
        """
        if len(key) > _LONGEST_KEY:
            return False
        plain = _plain(key)
        if plain in self._keys or plain.endswith(self._endings):
            return True
        return bool(self._endings) and key.isupper() and key.endswith("_TOKEN")

    def text(self, text: str) -> str:
        """Return what may be kept of a text; the very text where that is all of it.

        Example:
            >>> Redactor().text("GET https://me:pw@host/?api_key=abc")
            'GET https://[redacted]@host/?api_key=[redacted]'
        """
        kept = text
        for pattern, instead in self._patterns:
            kept = pattern.sub(instead, kept)
        if self._function is not None:
            # What it calls is not traced: what that is given would have to be redacted in turn.
            with suppress_instrumentation():
                # What the user's function cannot read, or gives back as no text, is not kept.
                told: object = self._function(kept)
            # A text of a class of its own, such as one that is safe in HTML, is the text alone.
            kept = str.__str__(told) if isinstance(told, str) else REDACTED
        return text if kept == text else kept


_LONGEST_KEY: Final = 64
_BETWEEN: Final = str.maketrans("", "", "-_ .")


def _plain(key: str) -> str:
    return key.lower().translate(_BETWEEN)
