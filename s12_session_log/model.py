"""The way to a language model: one request goes out, the reply streams in.

With a key (``ANTHROPIC_API_KEY``) or a server (``ANTHROPIC_BASE_URL``) in the environment or in ``.env`` it is that
model; without, it is the offline model that comes with the course. Both speak the Messages API, so there is one
code path. The SDK takes about a second to import, which happens in a thread while the person reads or types.
"""

from __future__ import annotations

import gc
import math
import os
import re
import socket
import threading
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Callable
from typing import Iterator
from urllib.parse import urlsplit

from .errors import ModelError
from .errors import broken_off
from .errors import explain

Show = Callable[..., None]

DEFAULT_MODEL = "claude-sonnet-5-5"
DEFAULT_URL = "https://api.anthropic.com"
INSTALL = "run pip install 'anthropic>=2.14,<3' python-dotenv."
MORE = ("MODEL_ID", "FALLBACK_MODEL")  # settings beside those that begin with ANTHROPIC_
# Models that give a readable summary of their thinking when asked; older ones refuse the question.
GIVES_SUMMARIES = re.compile(r"offline-model|claude-(opus|sonnet)-4-[6-9]|claude-[a-z]+-5")
# Parts of a request that we can do without where a server does not take them.
OPTIONAL = ("thinking", "cache_control")
# How a refusal is worded that is about a block of the conversation, and not about such a part.
ABOUT_BLOCKS = re.compile(r"\b(messages|tools)\.\d|\bsystem\.\d(?!\S*cache_control)|\bblocks?\b", re.IGNORECASE)
# What the SDK stumbles over, in one way or another, when what arrives is not what a Messages API sends.
NONSENSE = (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
WINDOW = 200_000  # tokens; newer models have more, but to make room early costs little, and too late the conversation
DEPTH = 100  # levels of a call's arguments; deeper ones break JSON, copying and whoever reads them
LINGER = 0.25  # seconds that a server may take to end its answer after the last event


@dataclass
class Reply:
    """What the model answered: content blocks as plain dictionaries, why it stopped, tokens, and who it was."""

    content: list[dict[str, Any]]
    stop_reason: str
    usage: dict[str, Any]
    model: str

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [block for block in self.content if block["type"] == "tool_use"]


@dataclass
class Model:
    """A model on a server. ``model(request, show)`` asks it and returns the Reply, or raises ModelError."""

    name: str
    url: str
    key: str = field(repr=False)
    script: Any = None
    extras: dict[str, Any] = field(default_factory=lambda: {"cache_control": {"type": "ephemeral"}})
    client: Any = None
    fallback: str = ""

    def __post_init__(self) -> None:
        if GIVES_SUMMARIES.search(self.name):
            self.extras["thinking"] = {"type": "adaptive", "display": "summarized"}

    @property
    def address(self) -> str:
        """The server's address as one may show it, without a password."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    @property
    def window(self) -> int:
        """How many tokens a request and its reply may have together; the offline model can have less."""
        return getattr(self.script, "context_limit", None) or WINDOW

    def describe(self) -> str:
        """Return who answers and where, for the person."""
        return f"{'offline model (scripted)' if self.script else self.name} at {self.address}"

    def __call__(self, request: dict[str, Any], show: Show) -> Reply:
        """Send one request of the Messages API; ``show("text", text=…)`` gets the words as they arrive."""
        try:
            import anthropic
            import httpx2
        except ImportError as error:
            raise ModelError(f"The SDK is missing ({error}): {INSTALL}") from error
        try:
            return self.stream(request, show)
        except (anthropic.BadRequestError, anthropic.UnprocessableEntityError) as error:
            said = str(error.api_message or error).lower()
            extra = next((name for name in OPTIONAL if name in said and without(request, name) != request), None)
            if extra is None or ABOUT_BLOCKS.search(said):
                raise explain(error, self) from error
            self.extras.pop(extra, None)
            return self(without(request, extra), show)
        except (anthropic.APIError, httpx2.HTTPError) as error:
            raise explain(error, self) from error
        except UnicodeEncodeError as error:
            raise ModelError("The request holds text that is no Unicode: rename the file it comes from.") from error

    def stream(self, request: dict[str, Any], show: Show) -> Reply:
        self.client = self.client or new_client(self.url, self.key)
        reply = None
        with self.client.messages.stream(**request) as events:
            for kind, piece in pieces(events, self):
                if kind == "reply":
                    reply = piece
                else:
                    show(kind, text=piece)
        if reply.stop_reason is None:
            raise broken_off(self)
        return reply


def without(request: dict[str, Any], part: str) -> dict[str, Any]:
    """Return ``request`` without an optional part: at its top, and in the blocks of the system prompt."""
    rest = {key: value for key, value in request.items() if key != part}
    if isinstance(rest.get("system"), list):
        rest["system"] = [{key: value for key, value in block.items() if key != part} for block in rest["system"]]
    return rest


def connect(folder: Path, lesson: str, pace: float = 0.0) -> Model:
    """Return the model that the environment or ``folder/.env`` asks for, else the offline one.

    ``lesson`` names the offline model's script; ``pace`` is its pause between two words, in seconds.
    Raises ModelError when there is neither a key nor an offline model.
    """
    settings = read_settings(folder)
    key = settings.get("ANTHROPIC_API_KEY") or settings.get("ANTHROPIC_AUTH_TOKEN")
    url = settings.get("ANTHROPIC_BASE_URL")
    threading.Thread(target=import_sdk, daemon=True).start()
    if key or url:
        name = settings.get("ANTHROPIC_MODEL") or settings.get("MODEL_ID") or DEFAULT_MODEL
        return Model(name, (url or DEFAULT_URL).rstrip("/"), key or "none", fallback=settings.get("FALLBACK_MODEL", ""))
    try:
        import offline_model
    except ImportError:
        raise ModelError("No model: set ANTHROPIC_API_KEY in the environment or in .env, or put the folder "
                         "offline_model beside this chapter.") from None
    script = offline_model.start(scenario=lesson, pace=pace)
    return Model(offline_model.MODEL, script.url, "offline", script, fallback=offline_model.FALLBACK)


def read_settings(folder: Path) -> dict[str, str]:
    """Return the ANTHROPIC_* settings and two more; the environment wins over ``folder/.env``, blanks count as unset."""
    settings: dict[str, str | None] = {}
    if (folder / ".env").is_file():
        try:
            from dotenv import dotenv_values

            settings.update(dotenv_values(folder / ".env", encoding="utf-8-sig"))
        except ImportError as error:
            raise ModelError(f"A package is missing ({error}): {INSTALL}") from error
        except (OSError, UnicodeDecodeError) as error:
            text = f"{folder / '.env'} cannot be read ({error}): save it as UTF-8 text that you may read."
            raise ModelError(text) from error
    settings.update({name: value for name, value in os.environ.items() if value.strip()})
    wanted = {name: value.strip() for name, value in settings.items() if value and value.strip()}
    return {name: value for name, value in wanted.items() if name.startswith("ANTHROPIC_") or name in MORE}


def import_sdk() -> None:
    """Import the SDK with the garbage collector held off: a quarter faster, and the program ends at once."""
    gc.disable()
    try:
        import anthropic  # noqa: F401

        gc.freeze()
    except ImportError:
        pass  # the first request says so
    finally:
        gc.enable()


def new_client(url: str, key: str) -> Any:
    """Return an SDK client. Raises ModelError for a key, an address or a proxy that no request could use."""
    import anthropic
    import httpx2

    if not (key.isascii() and key.isprintable()):
        raise ModelError("The API key has characters that no key has: copy it again into ANTHROPIC_API_KEY.")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        valid = valid and url.isprintable() and " " not in url
    except ValueError:
        valid = False
    if valid and parts.path.rstrip("/").endswith("/v1"):
        raise ModelError(f"ANTHROPIC_BASE_URL is {url!r}: leave /v1 out, the SDK adds it.")
    if not valid:
        raise ModelError(f"ANTHROPIC_BASE_URL is {url!r}, which is no address: it should look like {DEFAULT_URL}.")
    is_local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    try:
        # A proxy cannot reach this machine's own servers. Certificates, which take 30 ms to load, are for https.
        needs_certificates = not is_local or parts.scheme == "https"
        http_client = anthropic.DefaultHttpxClient(trust_env=not is_local, verify=needs_certificates)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        said = " ".join(str(error).split())
        raise ModelError(f"The proxy or certificate settings of the environment cannot be used ({said}): "
                         "check HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE.") from error
    # Many providers read the key from this header; the SDK sends it as a bearer token only.
    headers = {"x-api-key": key} if url != DEFAULT_URL else None
    return anthropic.Anthropic(api_key=key, base_url=url, http_client=http_client, default_headers=headers, max_retries=0)


def pieces(events: Any, model: Model) -> Iterator[tuple[str, Any]]:
    """Yield ("text", words) and ("thinking", words) as they arrive, and at last ("reply", the Reply)."""
    event = None
    try:
        for event in events:
            if event.type in ("text", "thinking"):
                yield event.type, getattr(event, event.type)
            elif event.type == "message_stop" and not ends_by_itself(events.response, model):
                drain(events)
        if event is None and "event-stream" in events.response.headers.get("content-type", ""):
            raise broken_off(model)  # it began well, and ended before the first event
        message = events.current_message_snapshot
        content = [sound(block.to_dict(warnings=False)) for block in message.content]
        yield "reply", Reply(content, message.stop_reason, message.usage.to_dict(), message.model)
    except NONSENSE as error:
        text = f"{model.address} did not answer as a Messages API does: check ANTHROPIC_BASE_URL."
        raise ModelError(text) from error


def sound(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block of a reply if one can work with it. Raises TypeError for one that no Messages API sends.

    Arguments of a call that no request could carry back become none: the model is told what is missing, and mends it.
    """
    needed = {"text": ["text"], "tool_use": ["id", "name"]}.get(block.get("type", ""), ["type"])
    if not all(isinstance(block.get(name), str) for name in needed):
        raise TypeError("a block of the reply is not what the Messages API says")
    if block["type"] == "tool_use" and not (isinstance(block.get("input"), dict) and is_plain(block["input"])):
        return {**block, "input": {}}
    return block


def is_plain(value: Any, depth: int = DEPTH) -> bool:
    """Whether JSON can carry ``value``: every number finite, and nested no deeper than anybody means."""
    if isinstance(value, (dict, list)):
        inside = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(is_plain(item, depth - 1) for item in inside)
    return not isinstance(value, float) or math.isfinite(value)


def ends_by_itself(response: Any, model: Model) -> bool:
    """Whether the server is known to end its answer after the last event, so that nobody need watch it."""
    return model.url == DEFAULT_URL or model.script is not None or "content-length" in response.headers


def drain(events: Any) -> None:
    """Read to the end of the answer, so that the next request can use the connection; some servers never end it."""
    import httpx2

    timer = threading.Timer(LINGER, hang_up, (events.response,))
    timer.daemon = True
    timer.start()
    try:
        for _ in events:
            pass
    except httpx2.HTTPError:
        pass  # the message is whole
    finally:
        timer.cancel()


def hang_up(response: Any) -> None:
    """End the connection of ``response``. Unlike closing it, this wakes the thread that reads it."""
    try:
        response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has just ended
