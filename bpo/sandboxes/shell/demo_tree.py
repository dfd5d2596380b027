"""A small tree with commands to play in it: what the shell sandbox holds where no tree is named."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "README": "A folder for trying forks.\n",
    "notes/today.txt": "milk\nbread\n",
    "notes/old.txt": "nothing of interest\n",
    "src/add.sh": "#!/bin/bash\necho $(( $1 + $2 ))\n",
    "data/numbers": "3\n1\n2\n",
}
INSTRUCTION = "Sort data/numbers, remove notes/old.txt, then submit."
CHECK = "test ! -e notes/old.txt && sort -c data/numbers"
# Every kind of change that a tree can see; all print the same whenever they are played in the same state.
COMMANDS = (
    "ls -A . notes data src 2>&1",
    "find . | sort",
    "cat data/numbers",
    "sort -o data/numbers data/numbers",
    "echo eggs >> notes/today.txt",
    "rm -f notes/old.txt",
    "rm -rf notes && mkdir notes && echo fresh > notes/today.txt",
    "mv src/add.sh src/plus.sh",
    "mv notes diary",
    "ln -sf data/numbers latest && cat latest",
    "ln data/numbers data/twin",
    "chmod 755 src/add.sh && ls -l src/add.sh | cut -c1-10",
    "bash src/add.sh 2 3",
    "mkdir -p deep/er && echo x > deep/er/file",
    "rm -r deep",
    "echo scratch >> $TMPDIR/mine && wc -l < $TMPDIR/mine",
    "false",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
)


def make(folder: Path) -> Path:
    """Write the tree into a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
