"""What sandboxes that keep a working tree in boxes have in common: snapshots, forks, the end of a session."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

from bpo.sandbox import Observation, SnapshotError
from bpo.sandboxes.shell.workspace import Workspace, WorkspaceSnapshot


@dataclass(frozen=True)
class BoxedSnapshot:
    """A reached state of one session: restorable any number of times, in any order, until the next reset or close."""

    session: Any
    state: Any
    tree: WorkspaceSnapshot

    @property
    def size_bytes(self) -> int:
        """Bytes of the text, of files that wait to be written, and of the topmost layer on disk."""
        return len(self.state.text) + self.tree.size_bytes


class Boxed:
    """A sandbox over a workspace.

    Whoever inherits sets at every reset `_workspace`, `_session` (a new object each time: snapshots belong to a session) and
    `_state` (frozen, with the `text` last read), and says by `_observe` what the agent sees of them.
    """

    _workspace: Workspace | None = None
    _session: Any = None
    _state: Any = None
    _closed = False

    @property
    def workspace(self) -> Workspace:
        """The working tree in its present state."""
        self._running()
        assert self._workspace is not None
        return self._workspace

    def snapshot(self) -> BoxedSnapshot:
        """A handle on the present state; nothing is copied."""
        return BoxedSnapshot(self._running(), self._state, self.workspace.snapshot())

    def restore(self, snapshot: BoxedSnapshot) -> Observation:
        """Return to a snapshot of this session; SnapshotError for any other."""
        if self._closed:
            raise SnapshotError("this sandbox is closed, nothing can be restored in it")
        if not isinstance(snapshot, BoxedSnapshot) or snapshot.session is not self._session:
            raise SnapshotError("the snapshot belongs to another sandbox or to a session before the last reset")
        self.workspace.restore(snapshot.tree)
        self._state = snapshot.state
        return self._observe()

    def fork(self, n: int) -> list[Self]:
        """`n` independent sandboxes at the present state; their trees share all that is there."""
        session = self._running()
        forks = []
        for workspace in self.workspace.fork(n):
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__)
            other._workspace, other._session = workspace, copy.copy(session)
            forks.append(other)
        return forks

    def close(self) -> None:
        """End the session and let go of its files; may be called twice."""
        self._session, self._closed = None, True
        if self._workspace is not None:
            self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise RuntimeError("this sandbox is closed")

    def _running(self) -> Any:
        """The session; RuntimeError where there is none."""
        self._open()
        if self._session is None:
            raise RuntimeError("no session has been started; call reset first")
        return self._session

    def _observe(self) -> Observation:
        raise NotImplementedError
