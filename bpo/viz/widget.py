"""The same drawing as the HTML page, as a Jupyter widget, with the static figure beside it."""

from __future__ import annotations

from functools import cache
from typing import Any

from bpo.errors import require
from bpo.tree_log import SavedTree
from bpo.viz import plots
from bpo.viz.page import plain, script, style
from bpo.viz.trees import tree_figure


def show(saved: SavedTree) -> None:
    """Display the figure and below it the widget: a notebook that is read without its kernel still shows the tree."""
    from IPython.display import Image, display

    display(Image(plots.png(tree_figure(saved))))
    display(tree_widget(saved))


def tree_widget(saved: SavedTree) -> Any:
    """The tree as an anywidget; its only trait, `data`, is what `page.plain` returns."""
    return _widget()(data=plain(saved))


@cache
def _widget() -> type:
    require("anywidget", "notebooks")
    import anywidget
    import traitlets

    class TreeWidget(anywidget.AnyWidget):
        """A rollout tree to point at and to fold."""

        _esm = script()
        _css = style()
        data = traitlets.Dict().tag(sync=True)

        # The default holds every trait; equal trees must be equal outputs.
        def __repr__(self) -> str:
            return f"TreeWidget({self.data.get('title')!r}, {self.data.get('subtitle')!r})"

    return TreeWidget
