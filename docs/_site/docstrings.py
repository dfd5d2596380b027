"""Docstrings as Markdown: lines of "name   meaning" become lists, and indented blocks stay as they are."""

from __future__ import annotations

import re

import griffe

# A word or a few, two or more spaces, then what it means; further lines of it are indented.
FIELD = re.compile(r"^(?P<indent> {0,8})(?P<name>\S(?:(?! {2}).)*?) {2,}(?P<text>\S.*)$")
# A tag, which is text here, such as </action>.
TAG = re.compile(r"(`[^`]*`)|<(?=[/a-zA-Z])")


def as_markdown(text: str) -> str:
    """The docstring with aligned columns as a list; other lines are left alone."""
    lines: list[str] = []
    column = None  # where the text of the present field begins
    for line in TAG.sub(lambda match: match[1] or "&lt;", text).splitlines():
        field = FIELD.match(line)
        if field and (column is None or len(field["indent"]) < column - 1):
            if column is None and lines and lines[-1]:
                lines.append("")
            lines.append(f"* `{field['name']}`: {field['text']}")
            column = field.start("text")
        elif column is not None and line.strip() and len(line) - len(line.lstrip()) >= 2:
            lines[-1] += f" {line.strip()}"
        else:
            if column is not None and line.strip():
                lines.append("")
            column = None
            lines.append(line)
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package when it has been read."""

    def on_object(self, *, obj, **_) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
