"""Products on disk: any one of a million is read in microseconds, and hardly anything is held in memory."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bpo.errors import BadInput
from bpo.files import published
from bpo.sandboxes.webshop.folders import mapped, write_head
from bpo.sandboxes.webshop.records import Product

KIND, FORMAT = "product store", 1
WIDTH = 10  # characters of an asin


class CatalogueStore:
    """Products by asin and in file order, read-only.

    records   uint8, every product as JSON, one after the other
    ends      int64, where each ends
    asins     the asins, ascending
    places    int32, the place in file order of each asin in `asins`
    """

    def __init__(self, records: np.ndarray, ends: np.ndarray, asins: np.ndarray, places: np.ndarray):
        self._records, self._ends, self._asins, self._places = records, ends, asins, places
        self._remembered = lru_cache(maxsize=4096)(self._find)

    @classmethod
    def build(cls, products: Iterable[Product], folder: Path) -> CatalogueStore:
        """Write products to `folder`, in place of what is there once all are written, and open it.

        BadInput for an asin that comes twice, is longer than 10 characters, empty or not ASCII.
        """
        ends, asins = array("q"), []
        with published(Path(folder)) as new:
            with open(new / "records.npy", "wb") as file:
                _write_header(file, 0)
                start = file.tell()
                for product in products:
                    if not _possible(product.asin):
                        raise BadInput(f"product {product.asin!r}: an asin is 1 to {WIDTH} ASCII characters")
                    # Some titles hold halves of characters, which are kept as they are.
                    record = json.dumps(astuple(product), ensure_ascii=False, allow_nan=False)
                    file.write(record.encode("utf-8", "surrogatepass"))
                    ends.append(file.tell() - start)
                    asins.append(product.asin.encode())
                file.seek(0)
                _write_header(file, ends[-1] if ends else 0)
            names = np.array(asins, f"S{WIDTH}")
            order = np.argsort(names, kind="stable")
            ordered = names[order]
            if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
                raise BadInput(f"product {ordered[twice[0]].decode()!r} comes twice")
            np.save(new / "ends.npy", np.array(ends, np.int64))
            np.save(new / "asins.npy", ordered)
            np.save(new / "places.npy", order.astype(np.int32))
            write_head(new, KIND, FORMAT, {})
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> CatalogueStore:
        """The products in `folder`; BadInput where there are none, or where another format version was written."""
        _, arrays = mapped(folder, KIND, FORMAT, ("records", "ends", "asins", "places"))
        return cls(**arrays)

    def product(self, asin: str) -> Product:
        """The product with this asin; KeyError where there is none."""
        return self._remembered(asin)

    def __contains__(self, asin: object) -> bool:
        return self._place(asin) is not None

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Product]:
        """The products in the order in which they were written."""
        return map(self._read, range(len(self)))

    def _find(self, asin: str) -> Product:
        place = self._place(asin)
        if place is None:
            raise KeyError(asin)
        return self._read(place)

    def _place(self, asin: object) -> int | None:
        if not isinstance(asin, str) or not _possible(asin):
            return None
        name = asin.encode()
        found = self._asins.searchsorted(name)
        return int(self._places[found]) if found < len(self) and self._asins[found] == name else None

    def _read(self, place: int) -> Product:
        record = self._records[self._ends[place - 1] if place else 0 : self._ends[place]].tobytes()
        return Product(*map(_frozen, json.loads(record)))


def _frozen(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _possible(asin: str) -> bool:
    # An array of fixed-width bytes cannot tell a name from the same name with zeros behind it.
    return 0 < len(asin) <= WIDTH and asin.isascii() and "\0" not in asin


def _write_header(file: BinaryIO, size: int) -> None:
    """The header of a .npy file of bytes; as long for any size, so that it can be written again when the size is known."""
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
