"""Safe parsing of XML: document types (and thus entities) are not allowed, and size and depth are limited."""

from __future__ import annotations

from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from marinenav_env.support.validation import ConfigError, brief, is_number

MAX_ELEMENTS = 500_000
"""Largest number of elements of a document."""
MAX_DEPTH = 32
"""Largest depth of elements inside one another in a document."""


def parse_xml(text: str, name: str) -> Element:
    """Parse XML and return its root element.

    Args:
        text: XML text.
        name: source of the text, for error messages.

    Returns:
        The root element.

    Raises:
        ConfigError: if the text is not XML, has a document type, or exceeds MAX_ELEMENTS or MAX_DEPTH.
    """
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
    return builder.close()


def required_child(element: Element, place: str, tag: str) -> Element:
    """Return the first child of an element with a tag; ``place`` is the location of the element, for error messages.

    Raises:
        ConfigError: if there is no such child.
    """
    child = element.find(tag)
    if child is None:
        raise ConfigError(f"{place}: the element <{tag}> is missing")
    return child


def number_in_text(element: Element, place: str, limit: float) -> float:
    """Return the number in the text of an element.

    Args:
        element: element whose text is a number.
        place: location of the parent element, for error messages.
        limit: largest accepted magnitude.

    Raises:
        ConfigError: if the text is not a finite number, or its magnitude is too large.
    """
    text = (element.text or "").strip()
    try:
        # Python also reads underscores and non-ASCII digits.
        value = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None or not (is_number(value) and abs(value) <= limit):
        raise ConfigError(f"{place}.{element.tag}={brief(text)}: must be a number up to {limit:g} in size")
    return value
