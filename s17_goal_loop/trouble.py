"""What an error of the model means: whether it passes by itself, how long to wait, and how to tell it in a few words.

The statuses are those that the SDK repeats by itself, and what the Messages API writes beside them
(https://docs.claude.com/en/api/errors).
"""

from __future__ import annotations

import math
import re

from .errors import TROUBLE
from .errors import ModelError

PASSING = (*TROUBLE, "rate_limit_error", "connection_error", "broken_stream")
TOO_LONG = re.compile(r"prompt is too long|exceeds? (the |model's |available )*context|context[ _](length|window)", re.IGNORECASE)
WORDS = {
    "overloaded_error": "the model is overloaded",
    "rate_limit_error": "the rate is limited",
    "connection_error": "no connection",
    "timeout_error": "no answer in time",
    "broken_stream": "the answer broke off",
}


def passes(error: ModelError) -> bool:
    """Whether the trouble may be over soon, as the server's status says, or without one the kind of error."""
    if error.headers.get("x-should-retry") == "false":
        return False
    if error.status in (None, 200):  # no answer at all, or one that began well
        return error.kind in PASSING
    return error.status in (408, 409, 429) or error.status >= 500


def is_overload(error: ModelError) -> bool:
    return error.status == 529 or error.kind == "overloaded_error"


def is_too_long(error: ModelError) -> bool:
    return error.status == 413 or (error.status == 400 and TOO_LONG.search(str(error)) is not None)


def has_begun(error: ModelError) -> bool:
    return error.status == 200 or error.kind == "broken_stream"


def retry_after(headers: dict[str, str], now: float) -> float | None:
    """Return how many seconds the server asks to wait, by a number or an HTTP date; None if it does not say.

    A date is compared with the server's own clock, where it tells the time: ours may be wrong. ``now`` is ours.
    """
    from email.utils import parsedate_to_datetime

    said = headers.get("retry-after", "")
    try:
        seconds = float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(said)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        now = parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else now
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


def told_to_wait(seconds: float) -> str:
    wait = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return f"The server asks to wait {wait}, which is too long to sit here: send the prompt again then."


def in_words(error: ModelError) -> str:
    return WORDS.get(error.kind, f"the server is in trouble ({error.status or error.kind})")


def spoken(seconds: float) -> str:
    return f"in {seconds:.0f} s" if seconds >= 1 else "in a moment" if seconds else "at once"
