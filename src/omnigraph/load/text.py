"""Text files as UTF-8: other encodings are converted while they are read, and what is no such text is told apart."""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UnreadableInput, UsageError
from omnigraph.load.files import InputFile
from omnigraph.records.csv_rows import ConvertedBytes

UTF_8 = "utf-8"


@dataclass(frozen=True)
class TextOptions:
    """How text files are written: their encoding, and of CSV what stands between and around cells, the text of a null beside
    the empty cell, the columns of files without a header, and how dates and instants are written."""

    encoding: str = UTF_8
    delimiter: str = ","
    quote: str = '"'
    null: str | None = None
    columns: tuple[str, ...] = ()
    date_format: str | None = None
    time_format: str | None = None
    chosen: tuple[str, ...] = field(default=(), compare=False)
    """Names of those that the caller chose, even if as they would be anyway."""

    @classmethod
    def checked(
        cls,
        encoding: str | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        null: str | None = None,
        columns: Sequence[str] | None = None,
        date_format: str | None = None,
        time_format: str | None = None,
    ) -> TextOptions:
        """UsageError for an encoding that nobody knows, and for what cannot be a delimiter, a quote, a column or a format."""
        _check_sign(delimiter, "separate columns", "delimiter=';'")
        _check_sign(quote, "quote cells", "quote='|'")
        if (delimiter or ",") == (quote or '"'):
            raise UsageError(
                f"{delimiter or ','!r} cannot separate columns and quote cells", hint="give one character for each"
            )
        if columns is not None and (not columns or "" in columns):
            raise UsageError("a column has no name", hint="for example columns=['name', 'age']")
        for format, example in ((date_format, "%d.%m.%Y"), (time_format, "%d.%m.%Y %H:%M")):
            if format is not None and "%" not in format:
                raise UsageError(f"'{format}' is not a format of dates", hint=f"for example {example}")
        known = UTF_8 if encoding is None else _known_encoding(encoding)
        options = {
            "encoding": encoding,
            "delimiter": delimiter,
            "quote": quote,
            "null": null,
            "columns": columns,
            "date_format": date_format,
            "time_format": time_format,
        }
        chosen = tuple(name for name, value in options.items() if value is not None)
        return cls(known, delimiter or ",", quote or '"', null, tuple(columns or ()), date_format, time_format, chosen)

    def replaced(self, encoding: str | None, delimiter: str | None, header: Sequence[str]) -> TextOptions:
        """The same, with what a file has of its own."""
        own = TextOptions.checked(encoding, delimiter, self.quote)
        return replace(
            self,
            encoding=self.encoding if encoding is None else own.encoding,
            delimiter=self.delimiter if delimiter is None else own.delimiter,
            columns=tuple(header) or self.columns,
        )

    @property
    def of_csv(self) -> tuple[object, ...]:
        """What only CSV has, beside the delimiter."""
        return (self.quote, self.null, self.columns, self.date_format, self.time_format)


def _check_sign(sign: str | None, use: str, example: str) -> None:
    if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in "\r\n\0"):
        raise UsageError(f"{sign!r} cannot {use}", hint=f"give one character, for example {example}")


_CHUNK_BYTES = 1024 * 1024
START_BYTES = 4096

_KINDS = {
    b"\x1f\x8b": "gzip data",
    b"\x28\xb5\x2f\xfd": "Zstandard data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF document",
}
"""How files begin that are mistaken for data."""
_HINTS = {
    "a Parquet file": "name it .parquet, or pass format='parquet'",
    "a ZIP archive or an Excel workbook": "unpack it, or save the sheet as CSV (UTF-8)",
    "gzip data": "name it .jsonl.gz or .csv.gz",
    "Zstandard data": "name it .jsonl.zst or .csv.zst",
    "bzip2 data": "unpack it first: bunzip2 FILE",
    "xz data": "unpack it first: unxz FILE",
}
_FORMATS = "JSON lines, CSV or Parquet"


def _known_encoding(name: str) -> str:
    """Python's own name of it."""
    try:
        codec = codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError):
        raise UsageError(
            f"unknown encoding '{name}'", hint="for example utf-8, latin-1, cp1252, utf-16, shift_jis"
        ) from None
    return codec.name


def open_text(file: InputFile, encoding: str, start: int = 0, end: int | None = None) -> io.BufferedReader:
    """The file as UTF-8, from byte `start` on, up to `end` (0 and None in any other encoding, and of what is compressed)."""
    stream = file.open(start, end)
    if file.compression is not None:
        stream = io.BufferedReader(_Unpacked(stream, file.compression), _CHUNK_BYTES)
    if encoding == UTF_8:
        return stream
    return io.BufferedReader(_Converted(stream, encoding), _CHUNK_BYTES)


class _Unpacked(io.RawIOBase):
    """What a compressed stream holds. UnreadableInput where it is damaged."""

    def __init__(self, stream: io.BufferedReader, compression: str) -> None:
        self._stream = stream
        self._compression = compression
        self._unpacked = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data: bytes = self._unpacked.read(len(buffer))
        except (OSError, pa.ArrowException):
            raise UnreadableInput(
                f"the file is not {self._compression} data, or it is damaged", hint="write or copy it again"
            ) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Converted(ConvertedBytes):
    """A stream in another encoding as UTF-8."""

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line = 1

    def _read(self, size: int) -> bytes:
        return self._stream.read(_CHUNK_BYTES)

    def _converted(self, chunk: bytes) -> bytes:
        text = self._decoded(chunk)
        self._line += text.count("\n")
        return text.encode(UTF_8, "surrogatepass")

    def _decoded(self, chunk: bytes) -> str:
        state = self._decoder.getstate()
        try:
            return self._decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            line = self._line
            if isinstance(error, UnicodeDecodeError):
                # What was left of the chunk before is a part of `error.object`.
                self._decoder.setstate((b"", state[1]))
                line += self._decoder.decode(error.object[: error.start]).count("\n")
            raise UnreadableInput(
                f"not valid {self._encoding}", line=line, hint="pass the file's encoding, encoding='NAME'"
            ) from None

    def close(self) -> None:
        self._stream.close()
        super().close()


def start_of(stream: io.BufferedReader) -> bytes:
    """The first bytes, which are still to be read, without a byte order mark."""
    return stream.peek(START_BYTES)[:START_BYTES]


def refuse_other_kinds(start: bytes, wanted: str) -> None:
    """UnreadableInput when the first bytes are those of another kind of file than JSON lines or CSV."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableInput("the file is UTF-16, not UTF-8", line=1, hint="pass encoding='utf-16'")
    if len(start) >= 2 and (start[0] == 0) != (start[1] == 0):
        order = "be" if start[0] == 0 else "le"
        raise UnreadableInput(
            "the file looks like UTF-16 without a byte order mark, not UTF-8",
            line=1,
            hint=f"pass encoding='utf-16-{order}'",
        )
    kind = kind_of(start)
    if kind is not None:
        raise UnreadableInput(
            f"the file is {kind}, not {wanted}", hint=_HINTS.get(kind, f"convert it to {_FORMATS} first")
        )


def kind_of(start: bytes) -> str | None:
    """What a file is by its first bytes, when it is one of the kinds that are mistaken for data."""
    return next((kind for magic, kind in _KINDS.items() if start.startswith(magic)), None)


def refuse_json_document(start: bytes) -> None:
    """UnreadableInput when a file is one JSON document over several lines, or an array, instead of a record a line."""
    first, _, rest = start.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    if first.startswith(b"["):
        raise UnreadableInput(
            "this is one JSON document, an array, not JSON lines",
            line=1,
            hint="write one record per line: jq -c '.[]' FILE > FILE.jsonl",
        )
    if first.strip() == b"{" and rest.strip():
        raise UnreadableInput(
            "this is one JSON document over several lines, not JSON lines",
            line=1,
            hint="write one record per line: jq -c . FILE > FILE.jsonl",
        )
