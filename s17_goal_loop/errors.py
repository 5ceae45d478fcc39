"""What can go wrong on the way to a model, told in one line that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from .model import Model

TROUBLE = ("overloaded_error", "api_error", "timeout_error")  # kinds of error that pass by themselves
SECRET = 16  # characters; a shorter key is a stand-in such as "ollama", a word like any other


class ModelError(Exception):
    """The model could not be asked, or its answer is unusable: one line with the cure, for a person."""

    def __init__(self, message: str, status: int | None = None, kind: str = "", headers: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def explain(error: Exception, model: Model) -> ModelError:
    """Turn an error of the SDK into one line that says what to do."""
    import anthropic

    status = getattr(error, "status_code", None)
    kind = str(getattr(error, "type", None) or "")
    response = getattr(error, "response", None)
    said = " ".join(str(getattr(error, "api_message", None) or error).split())[:500]
    if len(model.key) >= SECRET:
        said = said.replace(model.key, "[key]")
    wait = response.headers.get("retry-after", "") if response is not None else ""
    if status == 401:
        text = f"{model.address} refuses the key (401): check ANTHROPIC_API_KEY in the environment or in .env."
    elif status == 403:
        text = f"{model.address} does not allow this (403): {said} Check what your key may use."
    elif status == 404 and "model" in said:
        text = f"{model.address} does not know the model {model.name!r} (404): set ANTHROPIC_MODEL to one that it has."
    elif status == 404:
        text = f"{model.address} has no Messages API (404): check ANTHROPIC_BASE_URL, it is the address without /v1."
    elif status == 429 or kind == "rate_limit_error":
        wait = f"{wait} s" if wait.isdigit() else "a minute"
        text = f"{model.address} limits the rate (429): wait {wait}, then send the prompt again. It said: {said}"
    elif kind in TROUBLE or (status and status >= 500):
        text = f"{model.address} is in trouble ({kind or status}): wait a minute, then send the prompt again."
    elif status == 200:
        text = f"{model.address} broke its answer off ({kind}): send the prompt again. It said: {said}"
    elif status:
        text = f"{model.address} refuses the request ({status}): {said}"
    elif "timed out" in said.lower() or "timeout" in type(error).__name__.lower():
        text = f"{model.address} did not answer in time: check the network, then send the prompt again."
        kind = "timeout_error" if isinstance(error, anthropic.APIError) else "broken_stream"
    elif not isinstance(error, anthropic.APIError):  # the SDK wraps what goes wrong before the answer begins
        return broken_off(model)
    else:
        text = f"Cannot reach {model.address} ({type(error.__cause__ or error).__name__}): check the network, a proxy, and ANTHROPIC_BASE_URL."
        kind = "connection_error"
    return ModelError(text, status, kind, response.headers if response is not None else None)


def broken_off(model: Model) -> ModelError:
    text = f"The answer of {model.address} broke off in the middle: send the prompt again."
    return ModelError(text, kind="broken_stream")
