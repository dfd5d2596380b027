"""What the site has besides docs/: README, guides, the protocol, notebooks, the API, and the source files that pages link to.

MkDocs calls the `on_...` functions. Links in all pages are written for readers of the repository; here they are turned to pages
of the site. A link that leads nowhere is a warning, which `make docs` treats as an error.
"""

from __future__ import annotations

import ast
import html
import logging
import posixpath
import re
from pathlib import Path

import latex2mathml.converter
import nbformat
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[2]
LOG = logging.getLogger("mkdocs.plugins.bpo")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Pages that lie outside docs/ in the repository: file -> page.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "reproduce/PROTOCOL.md": "protocol.md",
    "figures/README.md": "figures.md",
}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".cff": "yaml", ".md": ""}
# [text](target) and ![text](target), but not what stands in code.
LINK = re.compile(r"(```.*?```|`[^`\n]*`)|(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)", re.DOTALL)
# Page -> the file of the repository that it is made from, with what was generated for it.
SOURCE: dict[str, str] = {}


def on_config(config):
    """List in the navigation what mkdocs.yml does not name: notebooks, the API, and further guides."""
    named = {page for entry in config.nav for inside in entry.values() for page in inside}
    further = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    lists = {
        "Notebooks": [{path.stem.replace("_", " "): f"notebooks/{path.stem}.md"} for path in NOTEBOOKS],
        "API": [{Path(page).stem: page} for page in api_pages()],
        "Guides": further,
    }
    for entry in config.nav:
        for title, inside in entry.items():
            inside += lists.get(title, [])
    return config


def api_pages() -> dict[str, str]:
    """Page -> content: one page for each top-level module or package of bpo, with all public modules in it."""
    pages: dict[str, str] = {}
    for path in sorted((ROOT / "bpo").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(part.startswith("_") for part in parts):
            continue
        # Sandboxes are large packages of their own: one page each.
        top = parts[: 3 if parts[1:2] == ("sandboxes",) else 2]
        name = ".".join(parts)
        page = f"api/{'.'.join(top)}.md"
        # What a package only passes on is described where it is defined.
        body = ast.parse(path.read_text()).body
        members = "" if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body) else "\n      members: false"
        level = 2 if page in pages else 1
        pages[page] = pages.get(page, "") + f"::: {name}\n    options:\n      heading_level: {level}{members}\n\n"
    pages["api/bpo.md"] = "::: bpo\n    options:\n      heading_level: 1\n      members: false\n\n" + public_names()
    return pages


def public_names() -> str:
    """The names that can be imported from `bpo`, each with a link to where it is defined."""
    body = ast.parse((ROOT / "bpo" / "__init__.py").read_text()).body
    (imports,) = [node.body for node in body if isinstance(node, ast.If)]
    rows = []
    for node in imports:
        for alias in node.names:
            # A constant has no entry of its own.
            link = "" if alias.name.isupper() else f"[{node.module}.{alias.name}]"
            rows.append(f"| {f'[`{alias.name}`]' if link else f'`{alias.name}`'}{link} | [`{node.module}`][{node.module}] |")
    return "\n".join(["| name | defined in |", "| --- | --- |", *rows]) + "\n"


def on_files(files, config):
    """Add the pages that are not in docs/, and the files that links need."""
    SOURCE.clear()
    made = {page: (ROOT / name).read_text() for name, page in OUTSIDE.items() if (ROOT / name).is_file()}
    SOURCE.update({page: name for name, page in OUTSIDE.items()})
    made.update(api_pages())
    for path in NOTEBOOKS:
        text, pictures = notebook(path)
        made[f"notebooks/{path.stem}.md"] = text
        SOURCE[f"notebooks/{path.stem}.md"] = f"notebooks/{path.name}"
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    for file in files.documentation_pages():
        SOURCE.setdefault(file.src_uri, f"docs/{file.src_uri}")
        made.setdefault(file.src_uri, "")
    # Linked files, found by reading every page once.
    for page, text in list(made.items()):
        text = text or (ROOT / "docs" / page).read_text()
        for name in linked(text, SOURCE.get(page, "docs/api/x")):
            target = page_of(name)
            if target not in made and files.get_file_from_path(target) is None:
                if target.endswith(".md"):
                    made[target] = source_page(name)
                else:
                    files.append(File.generated(config, target, abs_src_path=str(ROOT / name)))
    for page, text in made.items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=text))
    return files


def page_of(name: str) -> str:
    """The page, or other file of the site, that stands for a file of the repository."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name.endswith(".ipynb"):
        return str(Path(name).with_suffix(".md"))
    return name if name.endswith((".png", ".svg")) else f"source/{name}.md"


def linked(text: str, source: str):
    """Files of the repository that a page links to; a file that does not exist is left for the page's warning."""
    for match in LINK.finditer(text):
        name, _ = resolved(match[3], source) if match[3] else (None, "")
        if name and (ROOT / name).exists() and name not in SOURCE.values():
            yield name


def resolved(target: str, source: str) -> tuple[str | None, str]:
    """(file of the repository, anchor) of a relative link in the file `source`; (None, "") for any other link."""
    if re.match(r"[a-z]+:|#", target):
        return None, ""
    path, _, anchor = target.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), anchor


def source_page(name: str) -> str:
    """A file, or the list of a folder, as a page."""
    path = ROOT / name
    if path.is_dir():
        listed = "\n".join(f"* `{child.name}`" for child in sorted(path.iterdir()) if not child.name.startswith((".", "__")))
        return f"# {name}\n\n{listed}\n"
    if path.suffix == ".md":
        return path.read_text()
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n````\n"


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with its committed outputs as Markdown, and its pictures by file name."""
    read = nbformat.read(path, as_version=4)
    for cell in read.cells:
        for output in cell.get("outputs", []):
            # Widgets need a running kernel; the text or picture beside them does not.
            for kind in [kind for kind in output.get("data", {}) if "widget" in kind]:
                del output["data"][kind]
    text, resources = MarkdownExporter().from_notebook_node(read, resources={"unique_key": path.stem})
    return re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL), resources.get("outputs", {})


def on_page_markdown(markdown, page, config, files):
    """Turn links between files of the repository into links between pages."""
    source = SOURCE.get(page.file.src_uri)
    if source is None:
        return markdown
    here = posixpath.dirname(page.file.src_uri)

    def turned(match: re.Match) -> str:
        if match[1]:
            return match[0]
        name, anchor = resolved(match[3], source)
        if name is None or name.startswith("../") or (source.startswith("notebooks/") and name in embedded(files)):
            return match[0]
        if not (ROOT / name).exists():
            LOG.warning("%s links to %s, which does not exist", source, name)
        target = posixpath.relpath(page_of(name), here or ".")
        return f"{match[2]}({target}{'#' if anchor else ''}{anchor})"

    return LINK.sub(turned, markdown)


def embedded(files) -> set[str]:
    """Pictures of notebooks, which have no file in the repository."""
    return {file.src_uri for file in files if file.src_uri.startswith("notebooks/") and not file.src_uri.endswith(".md")}


def on_page_content(content, **_):
    """Formulas as MathML, which browsers draw without a script."""
    return re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', mathml, content, flags=re.DOTALL)


def mathml(match: re.Match) -> str:
    """One formula, on a line of its own where it was set so."""
    display = "block" if match[1] == "div" else "inline"
    return latex2mathml.converter.convert(html.unescape(match[2]).strip(), display=display)
