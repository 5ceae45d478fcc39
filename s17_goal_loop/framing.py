"""One way to put text from elsewhere before the model, so that it can be told from instructions.

Whatever a model reads is text, and text can say anything: that it ends here, that the person speaks now. So such text
stands between two marks that carry a number which nobody could know when the text was written. What looks like a mark
inside is made harmless, the size is said, and where something was cut off one can see it.

A frame says what is data. It cannot make a model believe it: what must hold is checked in code, elsewhere.
"""

from __future__ import annotations

import re
import uuid

from .history import clean

NONCE = 12  # hexadecimal digits of the number in the marks: nobody guesses one of 2 ** 48
KIND = 40  # characters of a kind; it stands in the mark and is a word or two

# What could pass for one of these marks, or for that of the harness: in any case, spaced out, in wide letters.
BETWEEN = r"[\W_]{0,3}"
WORDS = [BETWEEN.join(f"[{char}{chr(ord(char) + 0xFEE0)}]" for char in word) for word in ("data", "systemreminder")]
LOOK_ALIKE = re.compile(rf"[<\uff1c\ufe64](?=[\W_]{{0,9}}(?:{'|'.join(WORDS)})(?!\w))", re.IGNORECASE)


def frame(kind: str, text: str, limit: int | None = None) -> str:
    """Return ``text`` framed as data: between two marks with what it is (``kind``), a fresh number, and its bytes.

    With ``limit``, at most so many bytes of the text (UTF-8) are in it; the mark says of how many, and the place where
    it was cut is marked. Takes any string, also one that is a frame itself, and never raises.
    """
    text = LOOK_ALIKE.sub("&lt;", clean(text))
    whole = text.encode("utf-8")
    shown = whole if limit is None else whole[:limit]
    is_cut = len(shown) < len(whole)
    text = shown.decode("utf-8", "ignore")  # no half characters
    if made := LOOK_ALIKE.search(text):  # a cut can make a mark out of a longer word
        text = text[: made.start()]
    nonce = new_nonce()
    while nonce in text:
        nonce = new_nonce()
    size = f'bytes="{len(text.encode("utf-8"))}"' + (f' of="{len(whole)}"' if is_cut else "")
    cut = "\n[cut here]" if is_cut else ""
    return f'<data kind="{plain(kind)}" id="{nonce}" {size}>\n{text}{cut}\n</data id="{nonce}">'


def new_nonce() -> str:
    return uuid.uuid4().hex[:NONCE]


def plain(kind: str) -> str:
    """Return ``kind`` without anything that could end the mark: it may come from outside, as the name of a server."""
    return re.sub(r"[^\w .,:/-]", "?", clean(kind))[:KIND]
