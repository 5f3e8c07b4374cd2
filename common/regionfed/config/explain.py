"""Turns validation errors into sentences that name file, key, value, what is allowed, and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from regionfed.config.keys import fields, section_at

_SHOWN = 8
_UNUSABLE = "is not usable: "


def explain(error: ValidationError, *, origin: Callable[[str], str]) -> str:
    """One line per wrong key; `origin` says where a dotted key was given."""
    by_key: dict[str, list[Mapping[str, Any]]] = {}
    for item in error.errors(include_url=False):
        by_key.setdefault(_dotted(item["loc"]), []).append(item)
    lines = [f"{origin(key)}: {_sentence(key, items)}" for key, items in by_key.items()]
    hidden = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {hidden} more"] if hidden > 0 else []))


def _dotted(loc: Iterable[int | str]) -> str:
    """The part of an error's place that names keys, without union members and list indices."""
    parts: list[str] = []
    for part in loc:
        inside = section_at(tuple(parts))
        named_by_user = inside is None and bool(parts) and _is_table(tuple(parts))
        if inside is None and not named_by_user:
            break
        parts.append(str(part))
    return ".".join(parts)


def _is_table(parts: tuple[str, ...]) -> bool:
    """Whether the user names the keys at this place, as in `data.custom`."""
    return section_at((*parts, "NAME")) is not None


def _sentence(key: str, items: list[Mapping[str, Any]]) -> str:
    item = items[0]
    if item["type"] == "extra_forbidden":
        return _unknown(key)
    given = item["input"]
    reasons = list(dict.fromkeys(_reason(each) for each in items))
    if item["type"] == "missing":
        return f"{key} is missing; add it"
    if isinstance(given, dict) and item["type"] == "value_error":
        reason = reasons[0].removeprefix(_UNUSABLE)
        return f"[{key}] {reason}" if key else reason
    sentence = f"{key} = {_shown(given)} {' or '.join(reasons)}"
    if item["type"] in ("literal_error", "enum") and isinstance(given, str):
        allowed = [word.strip("'") for word in _allowed(item)]
        if near := difflib.get_close_matches(given, allowed, n=1):
            sentence += f"; did you mean '{near[0]}'?"
    return sentence


def _reason(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "value_error":
            return _UNUSABLE + str(item["msg"]).removeprefix("Value error, ")
        case "literal_error" | "enum":
            return f"is not allowed; allowed are {', '.join(_allowed(item))}"
        case "model_type" | "dict_type":
            return "is a value where a section is expected; write it as [section] with keys below"
        case "string_type":
            return "must be text; write it in quotes"
        case "string_pattern_mismatch":
            return f"does not have the form {item['ctx']['pattern']}"
    message = str(item["msg"]).replace("Input should", "must").replace("should have", "must have")
    return message[:1].lower() + message[1:]


def _allowed(item: Mapping[str, Any]) -> list[str]:
    expected = str(item["ctx"]["expected"])
    return [word.strip() for word in expected.replace(" or ", ", ").split(",")]


def _unknown(key: str) -> str:
    """What an unknown key may have meant."""
    *place, name = key.split(".")
    section = section_at(tuple(place))
    known = list(section.model_fields) if section is not None else []
    where = f"[{'.'.join(place)}]" if place else "the file"
    sentence = f"unknown key {key}"
    near = difflib.get_close_matches(name, known, n=1) or [each for each in known if name in each]
    if near:
        return f"{sentence}; did you mean {'.'.join([*place, near[0]])}?"
    elsewhere = [full for full, _ in fields() if full.split(".")[-1] == name]
    if elsewhere:
        return f"{sentence}; {name} belongs in [{elsewhere[0].rpartition('.')[0]}]"
    return f"{sentence}; {where} knows {', '.join(known)}"


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 80 else f"{text[:77]}..."
