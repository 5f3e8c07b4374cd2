"""Typed messages and the one place that turns them into Flower records.

A message is a frozen dataclass. Its arrays travel in the array record, its scalars in the
configuration record; mappings and sequences travel as JSON. Nothing is pickled. A record with a
field that its message does not declare is refused, so that the declared fields are all that
crosses a hop.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import types
import typing
from typing import Any, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from regionfed.errors import UpdateError

Vector = NDArray[np.float32]
"""A flat vector, float32, length d (algorithm section 1)."""
MaskedVector = NDArray[np.uint32]
"""A masked fixed-point vector (privacy section 5)."""
IdVector = NDArray[np.int64]

_ARRAY_TYPES: dict[Any, np.dtype[Any]] = {
    Vector: np.dtype(np.float32),
    MaskedVector: np.dtype(np.uint32),
    IdVector: np.dtype(np.int64),
}
_SCALARS = (bool, int, float, str, bytes)
_KIND = "kind"

_PARSING = threading.Lock()
"""Held while an array's header is read: before Python 3.11.8 and 3.12.2 `ast` fails now and then
when several threads parse at once, and regions of a simulation are threads."""


_KNOWN: dict[Any, dict[str, tuple[Any, bool]]] = {}


def _fields(cls: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Field name -> (type without None, whether None is allowed)."""
    if cls in _KNOWN:
        return _KNOWN[cls]
    hints = typing.get_type_hints(cls)
    found: dict[str, tuple[Any, bool]] = {}
    for field in dataclasses.fields(cls):
        hint, optional = hints[field.name], False
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            members = [h for h in typing.get_args(hint) if h is not type(None)]
            assert len(members) == 1, f"{cls.__name__}.{field.name}: unions are not wire types"
            hint, optional = members[0], True
        found[field.name] = (hint, optional)
    _KNOWN[cls] = found
    return found


def _dtype(hint: Any) -> np.dtype[Any] | None:
    return next((d for known, d in _ARRAY_TYPES.items() if known == hint), None)


@dataclasses.dataclass(frozen=True)
class WireMessage:
    """Base of all messages."""

    @classmethod
    def declared(cls) -> dict[str, str]:
        """Field name -> type, as text: everything that this message can carry."""
        return {f.name: str(f.type) for f in dataclasses.fields(cls)}

    def to_record(self) -> RecordDict:
        """The message as Flower records; fields that are None are left out."""
        arrays: dict[str, Array] = {}
        config: dict[str, Any] = {_KIND: type(self).__name__}
        for name, (hint, _) in _fields(type(self)).items():
            value = getattr(self, name)
            if value is None:
                continue
            dtype = _dtype(hint)
            if dtype is not None:
                arrays[name] = Array(np.ascontiguousarray(value, dtype=dtype))
            elif hint in _SCALARS:
                config[name] = value
            else:
                config[name] = json.dumps(value, separators=(",", ":"))
        return RecordDict({"arrays": ArrayRecord(arrays), "config": ConfigRecord(config)})

    @classmethod
    def from_record(cls, record: RecordDict) -> Self:
        """Read a message.

        Raises:
            UpdateError: another kind of message, an undeclared or missing field, a wrong type.
        """
        arrays = record.array_records.get("arrays", ArrayRecord())
        config = dict(record.config_records.get("config", ConfigRecord()))
        kind = config.pop(_KIND, "nothing")
        if kind != cls.__name__:
            raise UpdateError(f"expected a {cls.__name__} message, got {kind}")
        fields = _fields(cls)
        unknown = sorted((set(arrays) | set(config)) - set(fields))
        if unknown:
            raise UpdateError(f"{cls.__name__} message with undeclared fields {unknown}")
        values: dict[str, Any] = {}
        for name, (hint, optional) in fields.items():
            dtype = _dtype(hint)
            if dtype is not None and name in arrays:
                values[name] = cls._array(name, arrays[name], dtype)
            elif name in config:
                values[name] = cls._scalar(name, config[name], hint)
            elif optional:
                values[name] = None
            else:
                raise UpdateError(f"{cls.__name__} message without its field `{name}`")
        return cls(**values)

    @classmethod
    def _array(cls, name: str, array: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
        try:
            with _PARSING:
                value: NDArray[Any] = array.numpy()
        except (TypeError, ValueError) as error:
            raise UpdateError(f"{cls.__name__}.{name}: unreadable array") from error
        if value.dtype != dtype or value.ndim != 1:
            raise UpdateError(
                f"{cls.__name__}.{name}: expected a 1-dimensional {dtype} array, "
                f"got {value.dtype} of shape {value.shape}"
            )
        return value

    @classmethod
    def _scalar(cls, name: str, value: Any, hint: Any) -> Any:
        if hint in _SCALARS:
            if hint is float and isinstance(value, int) and not isinstance(value, bool):
                return float(value)
            if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
                raise UpdateError(
                    f"{cls.__name__}.{name}: expected {hint.__name__}, got {type(value).__name__}"
                )
            return value
        try:
            parsed = json.loads(value)
        except (TypeError, ValueError) as error:
            raise UpdateError(f"{cls.__name__}.{name}: not JSON") from error
        origin = typing.get_origin(hint) or hint
        if not isinstance(parsed, list if origin in (list, tuple) else dict):
            raise UpdateError(f"{cls.__name__}.{name}: JSON of the wrong shape")
        return tuple(parsed) if origin is tuple else parsed


def message_kind(record: RecordDict) -> str:
    """Class name of the message in `record`, or an empty string."""
    return str(record.config_records.get("config", ConfigRecord()).get(_KIND, ""))


def finite_vector(name: str, value: Vector | None, size: int) -> Vector:
    """`value`, if it is a finite vector of length `size`.

    Raises:
        UpdateError: it is missing, has another length, or holds NaN or infinity.
    """
    if value is None:
        raise UpdateError(f"{name} is missing")
    if value.shape != (size,):
        raise UpdateError(f"{name} has length {value.shape[0]}, expected {size}")
    if not np.isfinite(value).all():
        raise UpdateError(f"{name} holds NaN or infinity")
    return value
