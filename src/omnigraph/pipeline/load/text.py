"""Text files as UTF-8: other encodings are converted while they are read, and what is no such text is told apart."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass

from omnigraph.errors import UnreadableInput, UsageError
from omnigraph.pipeline.load.files import InputFile
from omnigraph.records.converted import ConvertedBytes

UTF_8 = "utf-8"


@dataclass(frozen=True)
class TextOptions:
    """How text files are written: their encoding, and what stands between the cells of CSV."""

    encoding: str = UTF_8
    delimiter: str = ","

    @classmethod
    def checked(cls, encoding: str | None, delimiter: str | None) -> TextOptions:
        """UsageError for an encoding that nobody knows, or a delimiter that cannot be one."""
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
            raise UsageError(
                f"{delimiter!r} cannot separate columns", hint="give one character, for example --delimiter ';'"
            )
        return cls(UTF_8 if encoding is None else _known_encoding(encoding), delimiter or ",")

    def replaced(self, encoding: str | None, delimiter: str | None) -> TextOptions:
        """The same, with what a file has of its own."""
        own = TextOptions.checked(encoding, delimiter)
        return TextOptions(
            self.encoding if encoding is None else own.encoding, self.delimiter if delimiter is None else own.delimiter
        )


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
    "a Parquet file": "name it .parquet, or pass --format parquet",
    "a ZIP archive or an Excel workbook": "unpack it, or save the sheet as CSV (UTF-8)",
    "gzip data": "unpack it first: gunzip FILE",
    "Zstandard data": "unpack it first: unzstd FILE",
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


def open_text(file: InputFile, encoding: str, start: int = 0) -> io.BufferedReader:
    """The file as UTF-8, from byte `start` on (0 in any other encoding)."""
    stream = file.open(start)
    if encoding == UTF_8:
        return stream
    return io.BufferedReader(_Converted(stream, encoding), _CHUNK_BYTES)


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
                f"not valid {self._encoding}", line=line, hint="pass the file's encoding with --encoding"
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
        raise UnreadableInput("the file is UTF-16, not UTF-8", line=1, hint="pass --encoding utf-16")
    if len(start) >= 2 and (start[0] == 0) != (start[1] == 0):
        order = "be" if start[0] == 0 else "le"
        raise UnreadableInput(
            "the file looks like UTF-16 without a byte order mark, not UTF-8",
            line=1,
            hint=f"pass --encoding utf-16-{order}",
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
