"""The words of a message, and lists of words to look for, in several languages.

Work is bounded: only the beginning and the end of a long message are read. A task stands there; what lies between is
material.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

HEAD_CHARS = 3_000
TAIL_CHARS = 1_000
FIRST_UNSPACED = "\u2e80"
"""From this code point on, scripts put no spaces between words."""

# Words are cut as bytes: a table of 256 is several times faster than one of characters once a text leaves ASCII.
_CUTS = bytes(byte if chr(byte).isalnum() or byte == ord("_") or byte > 127 else ord(" ") for byte in range(256))
_WIDE_CUTS = "¿¡«»“”„‘’‹›…–—·、。，；：？！（）「」『』【】《》\u00a0\u3000"


@dataclass(frozen=True, slots=True)
class Words:
    """The part of a message that is read: as it stands, in lower case, cut into words, and these joined again."""

    text: str
    lowered: str
    words: Sequence[bytes]
    line: bytes


def words_of(text: str) -> Words:
    """The words of a text. ``_`` belongs to a word; apostrophes and hyphens part words."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
    lowered = text.lower()
    cut = lowered
    if not lowered.isascii():
        for mark in _WIDE_CUTS:
            if mark in lowered:
                cut = cut.replace(mark, " ")
    words = cut.encode("utf-8", "replace").translate(_CUTS).split()
    return Words(text, lowered, words, b" %b " % b" ".join(words))


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Entries of numbered groups, the first group before the others.

    ``words`` are single words with their group; ``phrases`` are several words in a row, found by their longest word;
    ``unspaced`` are entries of scripts without spaces, found anywhere.
    """

    words: Mapping[bytes, int]
    phrases: Mapping[bytes, Sequence[tuple[bytes, int]]]
    unspaced: Sequence[tuple[str, int]]

    def first_group(self, text: Words) -> int | None:
        """The first group that has an entry in the text; None: none has."""
        spaced = min((self.words[word] for word in self.words.keys() & text.words), default=None)
        for group in self._phrase_groups(text):
            spaced = group if spaced is None else min(spaced, group)
        if not text.lowered.isascii():
            for entry, group in self.unspaced:
                if spaced is not None and group >= spaced:
                    break
                if entry[0] in text.lowered and entry in text.lowered:
                    return group
        return spaced

    def count(self, text: Words) -> int:
        """How many different entries the text has."""
        found = len(self.words.keys() & text.words) + sum(1 for _ in self._phrase_groups(text))
        if not text.lowered.isascii():
            found += sum(1 for entry, _ in self.unspaced if entry[0] in text.lowered and entry in text.lowered)
        return found

    def _phrase_groups(self, text: Words) -> Iterator[int]:
        for word in self.phrases.keys() & text.words:
            for phrase, group in self.phrases[word]:
                if phrase in text.line:
                    yield group


def lexicon(groups: Sequence[Mapping[str, str]]) -> Lexicon:
    """A lexicon of groups, each of them entries by language: parted by spaces, words of a phrase joined by ``_``."""
    words: dict[bytes, int] = {}
    phrases: dict[bytes, list[tuple[bytes, int]]] = {}
    unspaced: list[tuple[str, int]] = []
    for number, languages in enumerate(groups):
        for entry in dict.fromkeys(" ".join(languages.values()).split()):
            parts = [part.encode() for part in entry.split("_")]
            if min(entry) >= FIRST_UNSPACED:
                unspaced.append((entry, number))
            elif len(parts) > 1:
                phrases.setdefault(max(parts, key=len), []).append((b" %b " % b" ".join(parts), number))
            else:
                words.setdefault(parts[0], number)
    return Lexicon(words, phrases, unspaced)
