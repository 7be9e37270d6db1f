"""What the measurements of clusters have in common: their folder, and how they fail."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class BenchFailed(Exception):
    """Something that must hold at any speed does not."""


def options(description: str) -> argparse.ArgumentParser:
    """A command line that says where the folder goes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="make a folder there, and keep it when something fails (default: a temporary one)",
    )
    return parser


def in_folder(name: str, data: Path | None, measure: Callable[[Path], T]) -> T:
    """What `measure` returns for a new folder. Ends the process with one line when it fails."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"replog-{name}-", dir=data))
    kept = False
    try:
        return measure(folder)
    except BenchFailed as failure:
        kept = data is not None
        sys.exit(f"{name}: {failure}" + (f"; see {folder}" if kept else ""))
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def replog(folder: Path, *words: str) -> None:
    """A command on the cluster of `folder`, which must succeed."""
    command = [sys.executable, "-m", "replog", *words, "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchFailed(f"replog {' '.join(words)}: {done.stderr.strip()}")
