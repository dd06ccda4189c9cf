"""What is in nested containers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def leaves(thing: object) -> Iterator[Any]:
    """Everything in mappings, sequences, sets, dataclasses and torch modules, each once, however deep or circular."""
    # The objects too, so that none made on the way gets the id of one before it.
    seen: dict[int, object] = {}
    waiting: list[object] = [thing]
    while waiting:
        next_one = waiting.pop()
        if id(next_one) in seen:
            continue
        seen[id(next_one)] = next_one
        inner = _inner(next_one)
        if inner is None:
            yield next_one
        else:
            waiting.extend(inner)


def _inner(thing: Any) -> Iterable[object] | None:
    if isinstance(thing, Mapping):
        return list(thing.values())
    if isinstance(thing, (list, tuple, set, frozenset)):
        return thing
    if isinstance(thing, type):
        return None
    # torch.nn.Module and what is made like it; before dataclasses, which a module may be as well.
    if callable(getattr(thing, "parameters", None)) and callable(getattr(thing, "buffers", None)):
        return [*thing.parameters(), *thing.buffers()]
    if dataclasses.is_dataclass(thing):
        return [getattr(thing, field.name, None) for field in dataclasses.fields(thing)]
    return None
