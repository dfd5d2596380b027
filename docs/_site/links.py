"""Links in README, the guides and the documentation: `python docs/_site/links.py` follows those to other sites.

Links inside the repository need no network, so a test checks them with `broken`. A link to another site is broken where the
site answers that there is nothing; a site that does not answer at all is named, and is no failure.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
# Answers that mean: there is no such page.
GONE = (404, 410)


def pages(root: Path = ROOT) -> list[Path]:
    """Every Markdown file that people read."""
    return [
        *sorted(root.glob("*.md")),
        *sorted((root / "docs").rglob("*.md")),
        *(root / "figures").glob("*.md"),
        *(root / "reproduce").glob("*.md"),
    ]


def links(text: str) -> list[str]:
    """Targets of all links and pictures of a page, but not what stands in code."""
    return LINK.findall(CODE.sub("", text))


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        number = 0
        while slug + (f"-{number}" if number else "") in found:
            number += 1
        found.add(slug + (f"-{number}" if number else ""))
    return found


def broken(root: Path = ROOT) -> Iterator[str]:
    """Links inside the repository that lead nowhere, in words."""
    for page in pages(root):
        for link in links(page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists():
                yield f"{page.relative_to(root)}: {link} does not exist"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                yield f"{page.relative_to(root)}: {link} has no such heading"


def elsewhere(root: Path = ROOT) -> list[str]:
    """Links to other sites, each once."""
    return sorted({link for page in pages(root) for link in links(page.read_text()) if re.match(r"https?:", link)})


def answer(url: str) -> str:
    """What a site says: "ok", "gone", or why it does not answer."""
    request = urllib.request.Request(url, headers={"User-Agent": "Mozilla/5.0 (link check)"})
    try:
        with urllib.request.urlopen(request, timeout=30):
            return "ok"
    except urllib.error.HTTPError as error:
        return "gone" if error.code in GONE else f"answers {error.code}"
    except OSError as error:
        return f"does not answer: {error}"


def main() -> int:
    """Print what every other site says; 1 where a page is gone."""
    urls = elsewhere()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(answer, urls))
    for url, said in zip(urls, answers, strict=True):
        print(f"{said}: {url}")
    return int("gone" in answers)


if __name__ == "__main__":
    sys.exit(main())
