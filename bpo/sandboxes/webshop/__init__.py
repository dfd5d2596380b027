"""The WebShop sandbox: the original's pages, search and rewards without Java or a browser, on its products or on ours."""

# ruff: noqa: E402 (a missing extra is named before anything needs it)

from bpo.errors import require

for _module in ("nltk", "regex", "thefuzz", "ijson"):
    require(_module, "webshop")

from bpo.sandboxes.webshop.catalogue import open_catalogue
from bpo.sandboxes.webshop.demos import demonstration
from bpo.sandboxes.webshop.goals import leaks
from bpo.sandboxes.webshop.rules import RULES
from bpo.sandboxes.webshop.sandbox import PortableShop, WebShop, WebShopSnapshot

__all__ = ["RULES", "PortableShop", "WebShop", "WebShopSnapshot", "demonstration", "leaks", "open_catalogue"]
