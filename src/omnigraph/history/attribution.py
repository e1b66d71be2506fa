"""Actor and message of a commit: texts that callers pass, checked where they enter."""

from __future__ import annotations

from omnigraph.errors import UsageError

MAX_ACTOR_LENGTH = 256
MAX_MESSAGE_BYTES = 64 * 1024


def check_attribution(actor: object, message: object = None) -> None:
    """UsageError unless these fit in a commit record: text of bounded length that can be encoded in UTF-8, or None."""
    if actor is not None:
        text = _text("actor", actor)
        if not 0 < len(text) <= MAX_ACTOR_LENGTH:
            hint = f"an actor is a name of 1 to {MAX_ACTOR_LENGTH} characters"
            raise UsageError(f"the actor has {len(text)} characters", hint=hint)
    if message is not None:
        size = len(_text("message", message).encode())
        if size > MAX_MESSAGE_BYTES:
            raise UsageError(f"the message has {size} bytes", hint=f"a message takes up to {MAX_MESSAGE_BYTES} bytes")


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"the {what} must be text, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the {what} cannot be encoded in UTF-8: character {error.start + 1} is half of a surrogate pair"
        ) from None
    return value
