"""Safe parsing of XML: document types (and thus entities) are not allowed, and size and depth are limited."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from marinenav_env.scenarios.nodes import MAX_MAGNITUDE, Node
from marinenav_env.support.validation import ConfigError

MAX_ELEMENTS = 500_000
"""Largest number of elements of a document."""
MAX_DEPTH = 32
"""Largest depth of elements inside one another in a document."""


@dataclass(frozen=True)
class XmlNode(Node):
    """An element of an XML document; its members are its first children of each tag."""

    value: Element

    def get(self, *names: str) -> XmlNode | None:
        """Return the first child at the path of tags ``names[0]``; None if there is none."""
        return next(iter(self.every(names[0])), None)

    def require(self, *names: str) -> XmlNode:
        """Return the first child at the path of tags ``names[0]``, which must exist."""
        child = self.get(*names)
        if child is None:
            raise ConfigError(f"{self.place}: the element <{names[0]}> is missing")
        return child

    def every(self, path: str) -> list[XmlNode]:
        """Return all children at a path of tags, in their order."""
        children = self.value.findall(path)
        return [XmlNode(child, ".".join((self.place, child.tag, *child.attrib.values()))) for child in children]

    def number(self, low: float = -MAX_MAGNITUDE, high: float = MAX_MAGNITUDE) -> float:
        """Return the number in the text of the element, which must be from ``low`` to ``high``."""
        value: Any = (self.value.text or "").strip()
        # Python also reads underscores and non-ASCII digits.
        if value.isascii() and "_" not in value:
            with suppress(ValueError):
                value = float(value)
        return Node(value, self.place).number(low, high)


def parse_xml(text: str, name: str) -> XmlNode:
    """Parse XML and return its root element; ``name`` is the source of the text, for messages."""
    builder, depth, count = TreeBuilder(), 0, 0

    def refuse(reason: object) -> NoReturn:
        raise ConfigError(f"{name}: cannot be read as XML ({reason})")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:
            refuse(f"it has more than {MAX_ELEMENTS:,} elements, or {MAX_DEPTH} inside one another")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def document_type(*_: Any) -> NoReturn:
        # A document type may declare entities, which can stand for files or for more text than memory can hold.
        refuse("document types are not read")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        refuse(error)
    return XmlNode(builder.close(), name)
