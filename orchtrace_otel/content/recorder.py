"""What captures content: each thing copied once, within limits, redacted, and only then kept."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import asked, guarded, warn_once
from orchtrace_otel.content.capture import POLICY_KEYS, Capture
from orchtrace_otel.content.memory import Kept, RunMemory, memory_of
from orchtrace_otel.content.messages import said_by
from orchtrace_otel.content.opened import Attributes, Look, OpenTurn, Shape
from orchtrace_otel.content.redaction import Redactor
from orchtrace_otel.content.values import CUT, WITHHELD, Copy, dumped, is_writable
from orchtrace_otel.content.witness import of_parts
from orchtrace_otel.content.writer import Batch, New, Writer
from orchtrace_otel.forking import afresh_in_children

if TYPE_CHECKING:
    from orchtrace_otel.spans import Interval, Run, Scope

_WHOSE: Final = "a policy function"
_COST: Final = "leaves out what it would have said"


class Recorder:
    """Captures content, where it is on.

    Every method that the host's calls come through is guarded, and gives nothing where it
    fails.

    Args:
        capture: What is captured.
        key: Key of the hashes that refs are.
        writer: Where documents go; None where there is no store.

    Attributes:
        losses: What was lost or cut, by kind.
        on_spans: Whether content is written on spans.
    """

    def __init__(self, capture: Capture, key: str | None, writer: Writer | None = None) -> None:
        self.capture = capture
        self.writer = writer
        self.losses: Counter[str] = Counter()
        self.on_spans = capture.on_spans
        self.key = key
        self._key = (key or "").encode()[:64]
        self._counting = threading.RLock()  # see Pipeline
        afresh_in_children(self)
        self._redactor = Redactor(
            capture.redact_keys,
            capture.redact_patterns,
            capture.redact,
            with_known=capture.redact_defaults,
        )

    def start_afresh(self) -> None:
        """Count anew in the child of a fork."""
        self._counting = threading.RLock()  # see Pipeline
        self.losses.clear()

    def lose(self, what: str, count: int = 1) -> None:
        """Count content that was lost, or cut."""
        with self._counting:
            self.losses[what] += count
        warn_once(
            f"loss:{what}",
            "orchtrace lost content (%s); further losses of this kind are counted",
            what,
        )

    # -- values: arguments, results, messages, errors -----------------------------------------

    @guarded
    def opening(
        self, run: Run, value: Any, span_key: str | None = None, role: str | None = None
    ) -> Attributes:
        """Capture what an event was given; return the attributes that say where it is.

        Args:
            run: The run that the event belongs to.
            value: What it was given.
            span_key: Attribute for the value itself, where content is written on spans.
            role: Whose message it is, where that attribute holds messages.
        """
        return self._value(run, value, a.CONTENT_REF, span_key, role)

    @guarded
    def closing(
        self, run: Run, value: Any, span_key: str | None = None, role: str | None = None
    ) -> Attributes:
        """Capture what came of an event, as `opening` does what it was given."""
        return self._value(run, value, a.CONTENT_REF_CLOSE, span_key, role)

    @guarded
    def error(self, run: Run, error: BaseException) -> Attributes:
        """Capture the text of an error that something ended with."""
        text = text_of(error)
        held = {"error": {"type": type(error).__qualname__, "message": text}}
        found = self._value(run, held, a.CONTENT_REF_CLOSE, None, None)
        if self.on_spans and run.is_recording:
            found[a.ERROR_MESSAGE] = self.text(text) or ""
        return found

    @guarded
    def given(
        self,
        scope: Scope,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        names: Sequence[str] = (),
    ) -> None:
        """Capture the arguments of a call of plain code.

        Args:
            scope: What the call is.
            args: Its arguments; kept as `args`, beside the others by name.
            kwargs: Likewise.
            names: What the function calls its first `args`: a secret is one by place too.
        """
        pairs = zip(names, args, strict=False)
        is_secret = self._redactor.is_secret
        secret = [at for at, (name, one) in enumerate(pairs) if one is not None and is_secret(name)]
        if secret:
            args = tuple(WITHHELD if at in secret else one for at, one in enumerate(args))
        held = ({"args": args} if args else {}) | dict(kwargs)
        is_agent = scope.activation is scope
        key = a.INPUT_MESSAGES if is_agent else a.TOOL_ARGUMENTS
        facts = self._value(scope.run, held, a.CONTENT_REF, key, "user" if is_agent else None)
        if facts:
            scope.set(facts)

    @guarded
    def came(self, scope: Scope, result: Any) -> None:
        """Capture what a call of plain code came back with."""
        is_agent = scope.activation is scope
        key = a.OUTPUT_MESSAGES if is_agent else a.TOOL_RESULT
        role = "assistant" if is_agent else None
        facts = self._value(scope.run, result, a.CONTENT_REF_CLOSE, key, role)
        if scope.parent is None and a.CONTENT_REF_CLOSE in facts:
            memory_of(scope.run, self).result = {a.CONTENT_REF: facts[a.CONTENT_REF_CLOSE]}
        if facts:
            scope.set(facts)

    @guarded
    def stop(self, run: Run, detail: str | None, error: BaseException | None) -> Attributes:
        """Return what the stop of a run says beyond labels: its words, and where its result is.

        Args:
            run: The run.
            detail: Why it stopped: a class's name, or the host's own words.
            error: What it ended with.
        """
        memory = memory_of(run, self)
        found = dict(memory.result)
        memory.rest()
        if error is not None:
            told = self.error(run, error) or {}
            if a.CONTENT_REF_CLOSE in told:
                found[a.CONTENT_REF] = told[a.CONTENT_REF_CLOSE]
        words = memory.words if error is None else text_of(error)
        if detail is not None:
            detail = self.text(detail)
        if words and self.on_spans:
            told_words = self.text(words)
            detail = f"{detail}: {told_words}" if detail else told_words
        return found if detail is None else found | {a.STOP_DETAIL: detail}

    @guarded
    def stopping(self, run: Run, words: str) -> None:
        """Take the framework's own words for why a run is about to stop."""
        memory = memory_of(run, self)
        memory.words = words
        facts = self._value(run, words, a.CONTENT_REF, None, None)
        memory.result = memory.result or facts

    @guarded
    def text(self, text: str) -> str:
        """Return a short text as it may stand on a span."""
        return Copy(self._redactor, self.capture.span_bytes).text(text)

    def _value(
        self, run: Run, value: Any, ref_key: str, span_key: str | None, role: str | None
    ) -> Attributes:
        if not run.is_recording:
            return {}
        memory = memory_of(run, self)
        copy = Copy(self._redactor, self.capture.item_bytes, memory.copies)
        held: dict[str, Any] = {"value": copy.of(value)}
        found: Attributes = {}
        if span_key is not None and self.on_spans:
            shown = held["value"] if role is None else [said_by(role, held["value"])]
            found[span_key] = self.within(dumped(shown))
        if self.writer is not None:
            if copy.flags:
                held["flags"] = sorted(copy.flags)
            with memory.lock:
                new = self.document("value", held)
                if self.keep(run, memory, [new]):
                    found[ref_key] = new.ref
        self.note(run, copy.flags)
        return found

    # -- turns --------------------------------------------------------------------------------

    @guarded
    def open_turn(  # noqa: PLR0913 - one keyword a part of what was asked
        self,
        interval: Interval,
        messages: Iterable[Any],
        *,
        shape: Shape,
        look: Look,
        tools: Iterable[Any] = (),
        parameters: Mapping[str, Any] | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> OpenTurn:
        """Capture what a model is asked: only what is new of it is copied.

        Args:
            interval: The turn.
            messages: The host's messages.
            shape: See `Shape`.
            look: See `Look`.
            tools: Definitions of tools, in the conventions' shape.
            parameters: Sampling parameters.
            model: The model that is asked for.
            provider: Who serves it.
        """
        turn = OpenTurn(self, interval, shape, look, model, provider)
        if interval.run.is_recording:
            turn.ask(messages, list(tools), dict(parameters or {}))
        return turn

    def message(
        self, memory: RunMemory, message: Any, shape: Shape, look: Look, new: list[New]
    ) -> Kept:
        """Return what a message is kept as; adds it to `new` where it has to be put down."""
        witness = of_parts(look(message))
        kept = memory.find(witness)
        if kept is not None:
            return kept
        copy = Copy(self._redactor, self.capture.item_bytes, memory.copies)
        held = copy.whole(shape(message))
        if copy.flags:
            held["flags"] = sorted(copy.flags)
        document = self.document("message", held)
        new.append(document)
        kept = Kept(document.ref, frozenset(copy.flags), document.body if self.on_spans else b"")
        # Another thread of the host's may have changed it between the look and the copy.
        if witness is not None and of_parts(look(message)) == witness:
            memory.remember(witness, kept)
        return kept

    def copy(self, value: Any) -> tuple[Any, set[str]]:
        """Return a value as plain JSON, and what was cut or taken out."""
        copy = Copy(self._redactor, self.capture.item_bytes)
        return copy.of(value), copy.flags

    def policy(self, model: str | None) -> Mapping[str, str]:
        """Return what the user says of a policy, texts alone."""
        given = self.capture.policy
        told: Any = asked(given, _WHOSE, _COST)(model) if callable(given) else given
        if not isinstance(told, Mapping):
            return {}
        held = cast("Mapping[str, object]", told)
        return {key: str(held[key]) for key in POLICY_KEYS if held.get(key) is not None}

    # -- common to both -----------------------------------------------------------------------

    def document(self, kind: str, held: Any) -> New:
        """Return a document with its ref."""
        body = dumped(held)
        digest = hashlib.blake2b(b"%b %b" % (kind.encode(), body), key=self._key, digest_size=16)
        return New(kind, digest.hexdigest(), body)

    def keep(self, run: Run, memory: RunMemory, documents: Sequence[New]) -> bool:
        """Hand documents to the store as a whole; False where it cannot have them."""
        if self.writer is None:
            return False
        new = [one for one in documents if one.ref not in memory.used]
        if not new:
            return True
        size = sum(len(one.body) for one in new)
        if memory.bytes + size > self.capture.run_bytes:
            return self._refuse(run, memory, "content_over_limit", len(new))
        if not self.writer.put(Batch(run.id, [one.ref for one in new], new, memory)):
            return self._refuse(run, memory, "content_dropped", len(new))
        memory.bytes += size
        memory.used.update(one.ref for one in new)
        return True

    def _refuse(self, run: Run, memory: RunMemory, why: str, count: int) -> bool:
        """Count what was not kept; what the run believed of it is not so."""
        self.lose(why, count)
        run.flag(why)
        used = memory.used
        memory.forget()
        memory.used = used
        return False

    def within(self, text: bytes) -> str:
        """Return JSON that is short enough for a span, or else a text that says it is not."""
        if len(text) <= self.capture.span_bytes:
            return text.decode()
        self.lose("content_cut_on_spans")
        return dumped(f"<{len(text)} bytes>").decode()

    def note(self, run: Run, flags: Iterable[str]) -> None:
        """Say on the run what happened to its content."""
        if CUT in flags:
            run.flag("content_cut")
            self.lose("content_cut")

    def flush(self, timeout_s: float) -> bool:
        """Wait until what was captured is put down."""
        return self.writer is None or self.writer.flush(timeout_s)

    def shutdown(self, timeout_s: float) -> None:
        """Put down what was captured, and stop."""
        if self.writer is not None:
            self.writer.shutdown(timeout_s)


def text_of(error: BaseException) -> str:
    """Return the text of an error from what it was made of, without running code of its class."""
    args = BaseException.__getattribute__(error, "args")
    return " ".join(one if type(one) is str else _shown(one) for one in args)


def _shown(value: object) -> str:
    """Return a number or such as a text; of all else the class's name."""
    # Python refuses to write out whole numbers without end.
    is_short = type(value) in (float, bool) or (type(value) is int and is_writable(value))
    return str(value) if is_short else f"<{type(value).__qualname__}>"
