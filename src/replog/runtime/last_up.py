"""Where a cluster lives when its user names no folder, and which one was started last."""

import json
from pathlib import Path
from typing import Final

_FILE: Final = "last-up.json"


def user_folder() -> Path:
    """Replog's folder under the platform's user data folder. Not made."""
    import platformdirs  # only when nobody names a folder

    return Path(platformdirs.user_data_dir("replog"))


def default_data_dir() -> Path:
    """The data folder of a cluster whose user names none."""
    return user_folder() / "cluster"


def remember_up(data: Path) -> None:
    """`data` is the cluster that was started last. A folder that can't be written is no error."""
    folder = user_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / (_FILE + ".tmp")
        draft.write_text(json.dumps({"data": str(data.absolute())}) + "\n")
        draft.replace(folder / _FILE)
    except OSError:
        pass  # the next command then has to be told --data


def last_up() -> Path | None:
    """The data folder of the last `up`; None when there was none."""
    try:
        return Path(json.loads((user_folder() / _FILE).read_text())["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
