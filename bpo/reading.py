"""Where input becomes typed records: bytes, then text, then plain values, then records; nothing else in `bpo` parses input.

Plain values are None, bool, int, float, str, lists of them and dicts with text as keys. Whatever is read here is refused, in
one sentence, where it is too large, too deep, not UTF-8, has a key twice or holds a number that is not finite.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import types
import typing
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from bpo.errors import KINDS, BadInput, choose, shown

MiB = 2**20
# Largest file that is read whole, and largest text of one value; files of large collections are read line by line.
MOST_BYTES = 512 * MiB
# Deepest nesting of lists and objects; the deepest file of the project has 8 levels.
DEEPEST = 64
# Most values of a YAML document, in which a few lines can stand for more than memory holds.
MOST_VALUES = 100_000
# Whole numbers must fit into 64 bits with their sign.
LARGEST = 2**63 - 1
GZIP = b"\x1f\x8b"
# How pydantic reads records: no value is turned into one of another kind, no field is passed over.
STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}


def read_bytes(path: str | os.PathLike, what: str = "a file", most: int = MOST_BYTES) -> bytes:
    """The content of a file, unpacked where it is gzipped; BadInput where it is none, is damaged or is larger than `most`."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadInput(f"{str(path)!r} is no file; it must be {what}")
            data = file.read(most + 1)
            if data[:2] == GZIP:
                data = _unpacked(data, most)
    except FileNotFoundError:
        raise BadInput(f"{str(path)!r} does not exist; it must be {what}") from None
    except IsADirectoryError:
        raise BadInput(f"{str(path)!r} is a folder; it must be {what}") from None
    except ValueError as error:  # BadInput is one; a NUL in a name is another
        raise error if isinstance(error, BadInput) else BadInput(f"{str(path)!r} is no name of a file: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(
            f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}; it must be {what}"
        ) from None
    if len(data) > most:
        raise BadInput(f"{str(path)!r} holds more than {most:,} bytes; it must be {what}, which is smaller")
    return data


def _unpacked(data: bytes, most: int) -> bytes:
    found = []
    while data:
        stream = zlib.decompressobj(wbits=31)
        found.append(stream.decompress(data, most + 1 - sum(map(len, found))))
        if sum(map(len, found)) > most:
            break
        if not stream.eof:
            raise EOFError("its end is missing")
        data = stream.unused_data.lstrip(b"\0")
    return b"".join(found)


def text_of(data: bytes, where: str) -> str:
    """The bytes as text without a byte order mark; BadInput where they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not text in UTF-8 (byte {error.start} is {data[error.start]:#04x})") from None


def read_text(path: str | os.PathLike, what: str = "a text file", most: int = MOST_BYTES) -> str:
    """The text of a file; BadInput as `read_bytes` and `text_of`."""
    return text_of(read_bytes(path, what, most), str(path))


def read_json(path: str | os.PathLike, what: str = "a JSON file") -> Any:
    """The plain value in a JSON file, gzipped or not."""
    return from_json(read_text(path, what), str(path))


def read_lines(path: str | os.PathLike, what: str = "a file of JSON lines") -> Iterator[tuple[str, Any]]:
    """(place, plain value) of every line of a JSON-lines file that is not empty; the place names file and line."""
    # Not splitlines(): it would also split at separators that JSON allows within a string.
    for number, line in enumerate(read_text(path, what).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, from_json(line, where)


def from_json(text: str, where: str, halves: bool = False) -> Any:
    """The plain value that a JSON text stands for; BadInput that begins with `where`.

    halves   texts may hold halves of surrogate pairs, as those of programs do that print bytes which are no text
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except RecursionError:
        raise BadInput(_too_deep(where)) from None
    except ValueError as error:
        raise BadInput(f"{where} is not JSON: {error}") from None
    return plain(value, where, halves=halves)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise BadInput(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} stands there twice")
    return found


def _constant(name: str) -> Any:
    raise BadInput(f"{name} is not JSON; a number must be finite")


def from_yaml(text: str, where: str) -> Any:
    """The plain value that a YAML text stands for; BadInput that begins with `where`.

    A word without quotes is what `scalar` makes of it, so `off` and `no` are words and 1e-4 is a number. Tags are refused.
    """
    import yaml

    try:
        value = yaml.load(text, _loader())
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except RecursionError:
        raise BadInput(_too_deep(where)) from None
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    return plain(value, where, MOST_VALUES)


@cache
def _loader() -> type:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML whose words are read by `scalar` and whose keys are text, each once."""

        # A plain scalar keeps this tag, so that `!!str 1` is still told from `1`.
        DEFAULT_SCALAR_TAG = "plain"
        yaml_implicit_resolvers: typing.ClassVar = {}
        yaml_constructors: typing.ClassVar = {}

        def plain_value(self, node):
            # A quoted scalar is text whatever it spells.
            if node.style is not None:
                return node.value
            try:
                return scalar(node.value)
            except BadInput as error:
                raise BadInput(f"line {node.start_mark.line + 1}: {error}") from None

        def mapping(self, node):
            found: dict[str, Any] = {}
            yield found
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise BadInput(f"line {key.start_mark.line + 1}: a key must be text, not a list or a mapping")
                if key.value in found:
                    raise BadInput(f"line {key.start_mark.line + 1}: the key {shown(key.value)} stands there twice")
                found[key.value] = self.construct_object(value)

    Loader.add_constructor(None, yaml.SafeLoader.construct_undefined)
    Loader.add_constructor("plain", Loader.plain_value)
    Loader.add_constructor("tag:yaml.org,2002:str", lambda loader, node: loader.construct_scalar(node))
    Loader.add_constructor("tag:yaml.org,2002:seq", yaml.SafeLoader.construct_yaml_seq)
    Loader.add_constructor("tag:yaml.org,2002:map", Loader.mapping)
    return Loader


def to_yaml(value: Any) -> str:
    """The plain value as YAML that `from_yaml` reads as the same, keys in their order."""
    import yaml

    return yaml.dump(value, Dumper=_dumper(), sort_keys=False)


@cache
def _dumper() -> type:
    import yaml

    class Dumper(yaml.SafeDumper):
        """YAML in which texts that spell something else, like the hash 5e893467, stand in quotes."""

    def text(dumper, value: str):
        try:
            quoted = scalar(value) != value
        except BadInput:
            quoted = True
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="'" if quoted else None)

    Dumper.add_representer(str, text)
    return Dumper


WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DIGITS = r"[0-9](?:_?[0-9])*"
_WHOLE = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*|0x[0-9a-f](?:_?[0-9a-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*)", re.I)
_DECIMAL = re.compile(rf"[-+]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[-+]?[0-9]+)?", re.I)
_INFINITE = re.compile(r"([-+]?)\.(inf|nan)", re.I)
_LEADING = re.compile(r"[-+]?0[0-9_]+")


def scalar(text: str) -> Any:
    """What a person means by a word without quotes: None, true or false, a number, or the word itself.

    Numbers are written 13, -2, 1_000, 0x1f, 0o17, 0b11, 0.5, 1e-4; yes, no, on and off are words. BadInput for a number with
    zeros in front, which some read as octal, and for one that is too long to be meant.
    """
    text = text.strip()
    if text in WORDS:
        return WORDS[text]
    if _LEADING.fullmatch(text):
        raise BadInput(
            f"{shown(text)} begins with 0, which some read as octal; write {text.lstrip('+-0_') or '0'}, or quotes around it"
        )
    if _WHOLE.fullmatch(text):
        if len(text) > 100:
            raise BadInput(f"{shown(text)} is too large; a whole number must fit into 64 bits")
        return int(text, 0)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if found := _INFINITE.fullmatch(text):
        return float(f"{found[1]}{found[2]}")
    return text


def plain(value: Any, where: str, most: int = 10**9, halves: bool = False) -> Any:
    """The value itself where it is plain, finite, at most `DEEPEST` levels deep and has at most `most` parts."""
    waiting, parts = [(value, "", 1)], 0
    while waiting:
        one, at, level = waiting.pop()
        parts += 1
        if parts > most:
            raise BadInput(f"{where} stands for more than {most:,} values; anchors that refer to each other make it grow")
        if level > DEEPEST:
            raise BadInput(_too_deep(where))
        if isinstance(one, dict):
            waiting += [(inner, f"{at}.{key}" if at else str(key), level + 1) for key, inner in one.items()]
            one = "".join(one)
        elif isinstance(one, list):
            waiting += [(inner, f"{at}[{number}]", level + 1) for number, inner in enumerate(one)]
            continue
        here = f"{where}: {shown(at)[1:-1]}" if at else where
        if isinstance(one, float) and not math.isfinite(one):
            raise BadInput(f"{here} is {one}; it must be a finite number")
        if type(one) is int and not -LARGEST - 1 <= one <= LARGEST:
            raise BadInput(f"{here} is {shown(one)}; a whole number must fit into 64 bits")
        if isinstance(one, str) and not (halves or one.isascii()) and any("\ud800" <= sign <= "\udfff" for sign in one):
            raise BadInput(f"{here} is {shown(one)}; half of a surrogate pair is no character")
    return value


def _too_deep(where: str) -> str:
    return f"{where} is nested too deeply; lists and objects may be {DEEPEST} levels deep"


def typed(kind: Any, value: Any, where: str) -> Any:
    """A plain value as an instance of `kind`, a type with records, tuples and bounds in it.

    BadInput names the field below `where`, its value and what would be right; it is that of the first field that is wrong.
    """
    from pydantic import ValidationError

    try:
        # As JSON, in which a list may stand for a tuple and a mapping for a record, and nothing else for anything else.
        return _adapter(kind).validate_json(json.dumps(value))
    except ValidationError as error:
        raise BadInput(_sentence(kind, error.errors(include_url=False)[0], where)) from None


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind) if is_dataclass(kind) else TypeAdapter(kind, config=STRICT)


def _sentence(kind: Any, error: Mapping[str, Any], where: str) -> str:
    loc, inner = _known(kind, list(error["loc"]))
    context, name = error.get("ctx", {}), loc[-1] if loc else ""
    if len(loc) < len(error["loc"]) and error["type"] not in ("unexpected_keyword_argument", "missing"):
        return f"{_place(where, loc)} is {shown(error['input'])}, or holds it; it must be {_words(inner)}"
    if error["type"] == "unexpected_keyword_argument":
        try:
            choose(f"field of {_place(where, loc)}:", str(error["loc"][-1]), [one.name for one in fields(inner)])
        except BadInput as unknown:
            return str(unknown)
    if error["type"] == "missing":
        return f"{_place(where, loc[:-1])}: the field {name!r} is missing"
    names = ", ".join(one.name for one in fields(inner)) if is_dataclass(inner) else ""
    right = {
        "int_type": "a whole number",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "text",
        "tuple_type": "a list",
        "list_type": "a list",
        "dict_type": "a mapping",
        "finite_number": "a finite number",
        "dataclass_type": f"a mapping with the fields {names}",
        "greater_than_equal": f"at least {context.get('ge')}",
        "greater_than": f"above {context.get('gt')}",
        "less_than_equal": f"at most {context.get('le')}",
        "less_than": f"below {context.get('lt')}",
        "too_short": f"a list with {context.get('min_length')} entries at least",
        "too_long": f"a list with {context.get('max_length')} entries at most",
        "string_too_short": "a text that is not empty",
    }
    if error["type"] == "literal_error":
        try:
            choose(f"{name} in {_place(where, loc[:-1])}:", error["input"], typing.get_args(inner))
        except BadInput as unknown:
            return str(unknown)
    return f"{_place(where, loc)} is {shown(error['input'])}; it must be {right.get(error['type'], error['msg'])}"


def _place(where: str, loc: list[Any]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return f"{where}: {path.removeprefix('.')}" if path else where


def _known(kind: Any, loc: list[Any]) -> tuple[list[Any], Any]:
    """As much of a place below a type as is fields and items, and the type there; it ends at a choice of several types."""
    kind, known = _bare(kind), []
    for part in loc:
        if is_dataclass(kind):
            inner = typing.get_type_hints(kind, include_extras=True).get(part)
        elif typing.get_origin(kind) in (tuple, list, dict, Mapping):
            inner = typing.get_args(kind)[1 if isinstance(part, str) else 0]
        else:
            inner = None
        if inner is None:
            break
        kind = _bare(inner)
        known.append(part)
    return known, kind


def _bare(kind: Any) -> Any:
    """A type without its bounds, and without None as another possibility."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        others = [one for one in typing.get_args(kind) if one is not type(None)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


def _words(kind: Any) -> str:
    """A type as messages name it."""
    kind = _bare(kind)
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return " or ".join(_words(one) for one in typing.get_args(kind) if one is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    if typing.get_origin(kind) in (tuple, list):
        return f"a list, each entry {_words(typing.get_args(kind)[0])}"
    if is_dataclass(kind) or typing.get_origin(kind) in (dict, Mapping):
        return "a mapping"
    return "text" if kind is str else KINDS.get(kind, "a value")
