"""Text out of a file, compressed or not; and where the first byte is that its encoding does not know."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from trainwright.data.complaints import unreadable
from trainwright.errors import DataError
from trainwright.messages.text import _

CHUNK = 1 << 20  # bytes read at once
COMPRESSED = (".gz", ".zst")


def ending_of(path: Path) -> str:
    """What kind of file it is by its name, in lower case: ``.csv`` for reviews.csv and reviews.CSV.gz."""
    ending = path.suffix.lower()
    return Path(path.stem).suffix.lower() if ending in COMPRESSED else ending


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file as they were before it was compressed.

    Raises:
        DataError: A compressed file is damaged or cut short.
    """
    try:
        with _uncompressed(path) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise unreadable(path, error) from error
    except OSError as error:
        if path.suffix.lower() in COMPRESSED:  # how pyarrow says that zstd is damaged
            raise unreadable(path, error) from error
        raise


def _uncompressed(path: Path) -> BinaryIO:
    ending = path.suffix.lower()
    if ending == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if ending == ".zst":
        import pyarrow as pa  # slow to import and seldom needed

        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"), CHUNK)
    return open(path, "rb")


@contextlib.contextmanager
def open_text(path: Path, encoding: str, newline: str) -> Iterator[IO[str]]:
    """The text of a file, decoded strictly; a byte-order mark is no part of it.

    Args:
        path: The file.
        encoding: Name of the codec.
        newline: As in :func:`open`.

    Raises:
        DataError: A byte is not of this encoding, with line and offset; or a compressed file is damaged.
    """
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, encoding=codec, newline=newline) as text:
            yield text
    except UnicodeError as error:
        raise undecodable(path, encoding) from error


def undecodable(path: Path, encoding: str) -> DataError:
    """The file has a byte that is not of this encoding: which one, in which line."""
    place = first_bad_byte(path, encoding)
    if place is None:
        return DataError(_("{file} is not {encoding}.").format(file=path, encoding=encoding.upper()), way_out())
    text = _("{file}, line {line}: byte 0x{byte:02x} at offset {offset} is not {encoding}.")
    line, byte, offset = place
    return DataError(text.format(file=path, line=line, byte=byte, offset=offset, encoding=encoding.upper()), way_out())


def way_out() -> str:
    return _("Save the file as UTF-8, or name its encoding: data.encoding: gb18030")


def first_bad_byte(path: Path, encoding: str) -> tuple[int, int, int] | None:
    """Line from 1, value and offset of the first byte that cannot be decoded; None if all can."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, offset = 1, 0
    with open_bytes(path) as file:
        while True:
            before, chunk = decoder.getstate(), file.read(CHUNK)
            try:
                line += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                held = len(before[0])  # bytes of the last chunk that were not yet a whole character
                decoder.setstate(before)
                line += decoder.decode(chunk[: max(0, error.start - held)]).count("\n")
                return line, error.object[error.start], offset - held + error.start
            except UnicodeError:  # no byte-order mark where the encoding asks for one
                return 1, chunk[0], 0
            if not chunk:
                return None
            offset += len(chunk)
