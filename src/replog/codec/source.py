"""Python source under construction: lines, and the field that each line is about."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Source:
    """A function in the making, and the constants that it refers to.

    `paths` has for each line the path of the field that it handles: an error in the compiled
    function is located by its line, so that the good case pays nothing for it.
    """

    def __init__(self, file: str, signature: str, names: dict[str, Any]) -> None:
        self.file = file
        self.names = names
        self._signature = signature
        self._lines = [f"def {signature}:"]
        self._paths = [""]
        self._path: list[str] = []
        self._indent = 1

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self._lines.append("    " * self._indent + text)
        self._paths.append(".".join(self._path).replace(".[]", "[]"))

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        """A line that ends in a colon; what is written inside is indented."""
        self.line(text)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """What is written inside is about this field of the current one."""
        self._path.append(name)
        yield
        self._path.pop()

    def constant(self, name: str, value: object) -> str:
        """Makes `value` known to the function as `name`; returns the name."""
        self.names[name] = value
        return name

    def packer(self, codes: str) -> str:
        """The name of `pack` for these fields in a row."""
        return self.constant("pack_" + _as_name(codes), struct.Struct(">" + codes).pack)

    def unpacker(self, codes: str) -> tuple[str, int]:
        """The name of `unpack_from` for these fields in a row, and their size."""
        compiled = struct.Struct(">" + codes)
        return self.constant("unpack_" + _as_name(codes), compiled.unpack_from), compiled.size

    def function(self) -> Any:
        """The compiled function."""
        code = compile("\n".join(self._lines) + "\n", self.file, "exec")
        exec(code, self.names)
        return self.names[self._signature.partition("(")[0]]

    def text(self) -> str:
        """The source, to look at."""
        return "\n".join(self._lines)

    def path_of(self, traceback: TracebackType | None) -> str:
        """The path of the field at which the function failed, "" when it is unknown.

        In a run of fields that are handled at once it is that of the last.
        """
        line = 0
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.file:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return self._paths[line - 1] if line else ""


def _as_name(codes: str) -> str:
    return codes.replace("?", "z")
