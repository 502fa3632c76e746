"""XML element by element, without a tree: bounded memory, and a cut file is read up to the cut."""

from __future__ import annotations

from typing import Protocol
from xml.etree.ElementTree import ParseError

from .imported import Dump

MOST_ELEMENTS = 400_000
MOST_DEPTH = 64


class Target(Protocol):
    """What hears of elements."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Hear that an element begins."""

    def end(self, tag: str) -> None:
        """Hear that it ends."""

    def data(self, text: str) -> None:
        """Hear text in it."""


class _Bounded:
    """Passes elements on, tags without their namespace, until there are too many."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.data = target.data
        self.depth = self.seen = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.seen += 1
        if self.depth > MOST_DEPTH or self.seen > MOST_ELEMENTS:
            raise OverflowError
        self.target.start(tag.rpartition("}")[2], attributes)

    def end(self, tag: str) -> None:
        self.depth -= 1
        self.target.end(tag.rpartition("}")[2])

    def close(self) -> None:
        """End the document."""


def hear(dump: Dump, text: str, target: Target, hint: str) -> str:
    """Send the elements of a text to a target.

    Returns
    -------
    Where and why the XML breaks off; empty where it is whole.

    Raises
    ------
    InputError
        SP130 for document types and entities, and for more or deeper elements than any real file.
    """
    from defusedxml.common import DefusedXmlException  # noqa: PLC0415 - only where XML is read
    from defusedxml.ElementTree import DefusedXMLParser  # noqa: PLC0415

    entities = "holds a document type or entities, which no such file has."
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise dump.refuse(entities, hint)
    parser = DefusedXMLParser(target=_Bounded(target), forbid_dtd=True)
    try:
        parser.feed(text)
        parser.close()
    except DefusedXmlException:
        raise dump.refuse(entities, hint) from None
    except ParseError as error:
        return f"XML breaks off in line {error.position[0]} ({str(error)[:60]})"
    except OverflowError:
        message = f"has more than {MOST_ELEMENTS:,} elements, or nests them over {MOST_DEPTH} deep."
        raise dump.refuse(message, hint) from None
    return ""
