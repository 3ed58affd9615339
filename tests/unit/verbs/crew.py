"""A critic, a writer and a tool that are called, and a text that no line can hold."""

import orchtrace_otel as orchtrace


@orchtrace.agent
def critic(text: str = "") -> str:
    return text + "?"


@orchtrace.agent
def writer(text: str = "") -> str:
    return text + "!"


@orchtrace.tool
def look_up() -> None: ...


HALF = "caf\ud83d"  # a model broke off in the middle of an emoji
