"""The idea in a completion: what a policy wrote, freed of what its template and thinking put round.

All steps are linear in the length of the text, whatever it holds:

1. Of messages the last one of the assistant, of parts those of text.
2. A prompt that the text begins with is cut off, and so is all up to the assistant's last turn.
3. Thinking goes: all up to the last closing tag, and all from an opening tag that is never closed.
4. Special tokens (``<|im_end|>``, ``</s>``) go.
5. A block of code or the whole text that is JSON is a record, or a list of records, with the fields
   that files of ideas have; text under headings "Idea 1", "Idea 2" is several ideas.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from hindsight_fast.ideas import text_fields
from hindsight_fast.papers.text import without_surrogates

MAX_IDEAS: Final = 64
"""Of more ideas in a completion the rest is left out."""

_TURNS: Final = (
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|channel|>final<|message|>",
    "<start_of_turn>model",
    "<|assistant|>",
    "<｜Assistant｜>",
    "[/INST]",
)
_THOUGHT: Final = ("think", "thinking", "thought", "thoughts", "reasoning", "scratchpad")
_OPENED = re.compile(rf"<(?:{'|'.join(_THOUGHT)})>", re.IGNORECASE)
_CLOSED = re.compile(rf"</(?:{'|'.join(_THOUGHT)})>", re.IGNORECASE)
_TOKEN = re.compile(
    r"<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<(?:pad|bos|eos|unk|end_of_turn|start_of_turn)>"
)
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)[^\n`]{0,40}$", re.MULTILINE)
_ANOTHER = re.compile(
    r"^[ \t#*]{0,8}(?:research |proposed )?(?:idea|proposal)[ \t]*#?\d{1,3}\b[ \t]*[:.)*-]*",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSAL = re.compile(
    r"(?:i['’]?m|i am) (?:very |so )?(?:sorry|afraid)\b|(?:sorry|apologies)[,.!]"
    r"|i (?:can['’]?t|cannot|won['’]?t|will not)\b|i(?:['’]?m| am) (?:not able|unable) to\b"
    r"|as an ai\b|i must (?:decline|refuse)\b"
    r"|unfortunately, i can",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 500
_BEFORE_PROMPT = 64  # characters of special tokens that a decoded text may begin with


@dataclass(frozen=True, slots=True)
class Found:
    """What a completion holds.

    Attributes
    ----------
    ideas
        Fields of each idea: title, problem, method, text.
    status
        "ok"; "empty"; "refused"; "unfinished", where the thinking never ends; "unparseable", where
        the completion is no text, or JSON that holds no idea.
    cut
        Whether something was longer than is looked at.
    """

    ideas: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    status: str = "ok"
    cut: bool = False


def answer_of(completion: object, prompt: object = None) -> str | None:
    """The text of a completion without the prompt that it may begin with; None: it has no text.

    Parameters
    ----------
    completion
        See `content_of`.
    prompt
        A text, or messages, which no completion begins with.
    """
    try:
        text = content_of(completion)
    except RecursionError:  # messages in messages
        return None
    if text is None:
        return None
    if isinstance(prompt, str) and prompt.strip():
        at = text.find(prompt, 0, len(prompt) + _BEFORE_PROMPT)
        text = text[at + len(prompt) :] if at >= 0 else text
    return without_surrogates(text)


def find_ideas(answer: str | None, *, max_chars: int) -> Found:
    """Take the ideas out of what `answer_of` gave, of which no more characters are looked at."""
    if answer is None:
        return Found(status="unparseable")
    text = answer
    for turn in _TURNS:
        text = text.rpartition(turn)[2]
    text, is_open = _without_thinking(text)
    text = _TOKEN.sub(" ", text).strip()
    cut, text = len(text) > max_chars, text[:max_chars]
    if not text:
        return Found(status="unfinished" if is_open else "empty")
    if len(text) <= _LONGEST_REFUSAL and _REFUSAL.match(text):
        return Found(status="refused")
    records = _records(text, whole=not cut)
    if records is not None:
        known = [fields for one in records[:MAX_IDEAS] if (fields := text_fields(one))]
        status = "ok" if known else "unparseable"
        return Found(known, status, cut or len(records) > MAX_IDEAS)
    texts = _under_headings(text)
    return Found([{"text": one} for one in texts[:MAX_IDEAS]], "ok", cut or len(texts) > MAX_IDEAS)


def content_of(completion: object) -> str | None:
    """The text of a completion in any of its forms, "" where it says nothing; None: it's no text.

    A text, a message (a mapping with ``content``), a list of messages, of which the last of the
    assistant counts, a list of a message's parts, or None.
    """
    if completion is None:
        return ""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        message = cast(Mapping[str, object], completion)
        content = message.get("content", message.get("text"))
        return None if isinstance(content, Mapping) else content_of(content)
    if not isinstance(completion, Sequence) or isinstance(completion, bytes | bytearray):
        return None
    parts = [_as_part(one) for one in cast(Sequence[object], completion)]
    if spoken := [one for one in parts if "role" in one]:
        own = [one for one in spoken if one["role"] == "assistant"] or spoken
        return content_of(own[-1])
    texts = [one["text"] for one in parts if isinstance(one.get("text"), str)]
    return "\n".join(map(str, texts)) if texts or not parts else None


def _as_part(one: object) -> Mapping[str, object]:
    """An entry of a list as a message or a part of one."""
    if isinstance(one, Mapping):
        return cast(Mapping[str, object], one)
    return {"text": one} if isinstance(one, str) else {}


def _without_thinking(text: str) -> tuple[str, bool]:
    """The text behind the last thought, and whether another begins there and never ends."""
    text = text[max((closed.end() for closed in _CLOSED.finditer(text)), default=0) :]
    opened = _OPENED.search(text)
    return (text, False) if opened is None else (text[: opened.start()], True)


def _records(text: str, *, whole: bool) -> list[Mapping[str, Any]] | None:
    """The records of a text that is JSON or has a block of it; None where it has none."""
    for piece in (text, *_fenced(text)):
        stripped = piece.strip()
        if stripped[:1] not in ("{", "["):
            continue
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError):
            continue
        return _flat(value)
    looks_so = text.startswith(("{", "```json"))
    return [] if looks_so and (not whole or '":' in text or '" :' in text) else None


def _flat(value: object, deeper: int = 2) -> list[Mapping[str, Any]]:
    """Records of a JSON value: itself, those of a list, or of the first such thing in it."""
    if isinstance(value, list):
        entries = cast(list[object], value)
        records = [{"text": one} if isinstance(one, str) else one for one in entries]
        return [cast(dict[str, Any], one) for one in records if isinstance(one, dict)]
    if not isinstance(value, dict):
        return []
    record = cast(dict[str, Any], value)
    if deeper and not text_fields(record):
        for inner in record.values():
            within = [cast(object, inner)] if isinstance(inner, dict) else cast(object, inner)
            if found := [one for one in _flat(within, deeper - 1) if text_fields(one)]:
                return found
    return [record]


def _fenced(text: str) -> list[str]:
    """What stands in blocks of code, the last of which may not be closed."""
    fences = [(one.start(), one.end()) for one in _FENCE.finditer(text)]
    ends = [start for start, _ in fences[1::2]] + [len(text)]
    return [text[begin:end] for (_, begin), end in zip(fences[::2], ends, strict=False)]


def _under_headings(text: str) -> list[str]:
    """The text itself, or those under two and more headings such as "Idea 2"."""
    heads = list(_ANOTHER.finditer(text))
    if len(heads) < 2:
        return [_FENCE.sub("", text)]
    ends = [one.start() for one in heads[1:]] + [len(text)]
    pieces = [text[one.end() : end].strip() for one, end in zip(heads, ends, strict=True)]
    return [one for one in pieces if one] or [text]
