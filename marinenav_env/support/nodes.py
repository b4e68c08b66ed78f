"""Access to parsed JSON, YAML and XML, with errors that name the key and the allowed values."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from marinenav_env.support.validation import ConfigError, brief, is_number, is_printable_text

MAX_MAGNITUDE = 1e8
"""Default of the largest accepted magnitude of a number in a file of another program."""
MAX_ELEMENTS = 1000
"""Default of the largest accepted number of elements of a list in a file of another program."""


@dataclass(frozen=True)
class Node:
    """A value of a parsed file, with its location for messages; a value that is not as required raises ConfigError."""

    value: Any
    place: str
    """Name of the file, followed by the keys and indices that lead to the value."""

    def error_for(self, allowed: str) -> ConfigError:
        """Return an error that states the location and value, and that it must be ``allowed``, such as "a list"."""
        return ConfigError(f"{self.place}={brief(self.value)}: must be {allowed}")

    def keys(self) -> set[str]:
        """Return the keys of the value, which must be an object."""
        if not isinstance(self.value, dict):
            raise self.error_for("an object")
        return set(self.value)

    def get(self, *names: str) -> "Node | None":
        """Return the first member with one of these names, in camelCase or snake_case; None if there is none."""
        self.keys()
        for name in names:
            for key in (name, re.sub("([A-Z])", r"_\1", name).lower()):
                if self.value.get(key) is not None:
                    return Node(self.value[key], f"{self.place}.{key}")
        return None

    def require(self, *names: str) -> "Node":
        """Return the member that ``get`` returns, which must exist."""
        member = self.get(*names)
        if member is None:
            others = ", ".join(sorted(self.keys())[:3])
            raise ConfigError(f"{self.place}: the key '{names[0]}' is missing{f'; it has {others}' if others else ''}")
        return member

    def items(self, least: int = 0, most: int = MAX_ELEMENTS) -> list["Node"]:
        """Return the elements of the value, which must be a list of ``least`` to ``most`` elements."""
        if not (isinstance(self.value, list) and least <= len(self.value) <= most):
            count = f"{least}" if least == most else f"{least} to {most}"
            raise self.error_for(f"a list of {count} elements")
        return [Node(value, f"{self.place}[{index}]") for index, value in enumerate(self.value)]

    def number(self, low: float = -MAX_MAGNITUDE, high: float = MAX_MAGNITUDE) -> float:
        """Return the value, which must be a number from ``low`` to ``high``."""
        if not (is_number(self.value) and low <= self.value <= high):
            raise self.error_for(f"a number from {low:g} to {high:g}")
        return float(self.value)

    def text(self) -> str:
        """Return the value, which must be text of one line."""
        if not is_printable_text(self.value):
            raise self.error_for("text of one line")
        return str(self.value)


@dataclass(frozen=True)
class XmlNode(Node):
    """An element of an XML document; its members are its first children of each tag."""

    value: Element

    def get(self, *names: str) -> "XmlNode | None":
        """Return the first child at the path of tags ``names[0]``; None if there is none."""
        return next(iter(self.every(names[0])), None)

    def require(self, *names: str) -> "XmlNode":
        """Return the first child at the path of tags ``names[0]``, which must exist."""
        child = self.get(*names)
        if child is None:
            raise ConfigError(f"{self.place}: the element <{names[0]}> is missing")
        return child

    def every(self, path: str) -> list["XmlNode"]:
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


class _SafeBuilder(TreeBuilder):
    """Builder that refuses document types, whose entities can stand for files or for more text than memory can hold."""

    def doctype(self, *_: Any) -> NoReturn:
        """Refuse the document type."""
        raise ValueError("document types are not read")


def parse_xml(text: str, name: str) -> XmlNode:
    """Parse XML and return its root element; ``name`` is the source of the text, for messages."""
    parser = XMLParser(target=_SafeBuilder(), encoding="utf-8")
    try:
        parser.feed(text.encode())
        return XmlNode(parser.close(), name)
    except (ParseError, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read as XML ({error})") from error
