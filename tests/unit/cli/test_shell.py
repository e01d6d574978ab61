"""The shell as it is typed: at a terminal of its own, with the habits and slips of other shells."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.commands import as_command
from penstock.cli.line_editor import Completer
from penstock.cli.shell import Gatherer

PATIENCE = 60
STREAM = "CREATE STREAM s (src BIGINT, ts BIGINT) TIMESTAMP BY ts"
VIEW = "CREATE MATERIALIZED VIEW counts AS SELECT src, count(*) AS n FROM s [RANGE 10] GROUP BY src"


class Terminal:
    """A shell at the other end of a terminal."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._mine, theirs = pty.openpty()
        environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state"), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "sql", *arguments], cwd=directory,
            env={**environment, "COLUMNS": "100"}, pass_fds=[theirs],
            preexec_fn=lambda: os.login_tty(theirs),
        )  # fmt: skip
        os.close(theirs)
        self._shown = ""
        self.wait("penstock> ")

    def type(self, keys: str, until: str = "penstock> ") -> str:
        """Type keys; what is shown until a text comes for the last time."""
        os.write(self._mine, keys.encode())
        return self.wait(until)

    def wait(self, until: str) -> str:
        limit = time.monotonic() + PATIENCE
        while until not in _plain(self._shown):
            assert time.monotonic() < limit, f"no {until!r} in {_plain(self._shown)!r}"
            if select.select([self._mine], [], [], 0.1)[0]:
                self._shown += os.read(self._mine, 65536).decode(errors="replace")
        shown, _, self._shown = _plain(self._shown).rpartition(until)
        return shown

    def rest(self) -> None:
        """Wait until it waits for a key: Python overlooks a Ctrl-C between the prompt and that."""
        stat = Path(f"/proc/{self.process.pid}/stat")  # of its main thread
        limit, asleep = time.monotonic() + PATIENCE, 0
        while asleep < 5:
            assert time.monotonic() < limit, "it does not come to rest"
            time.sleep(0.02)
            asleep = asleep + 1 if stat.read_text().rpartition(")")[2].split()[0] == "S" else 0

    def left(self) -> int:
        """The exit code, once it has ended."""
        limit = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < limit:
            if select.select([self._mine], [], [], 0.1)[0]:
                try:
                    os.read(self._mine, 65536)
                except OSError:  # nobody is at the other end
                    break
        return self.process.wait(PATIENCE)


def _plain(text: str) -> str:
    return re.sub(r"\x1b(\[[?\d;]*[A-Za-z]|[=>])", "", text).replace("\r", "")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(tmp_path)
    yield shell
    shell.process.kill()
    shell.process.wait()


def test_a_session_with_slips(terminal: Terminal, tmp_path: Path) -> None:
    hint = terminal.type(f"{STREAM}\n", "...> ")
    assert "runs when it ends with ;" in hint
    assert "ok" in terminal.type(";\n", "penstock> ")
    assert "is registered" in terminal.type(VIEW + ";\n")
    assert "PS-" in terminal.type("SELEC 1;\n")
    assert "there is no command nonsense" in terminal.type("\\nonsense\n")
    assert "did you mean watch?" in terminal.type("wach counts\n")
    assert "watch needs the name" in terminal.type("watch;\n")
    kept_out = terminal.type('push s [{"src": "x", "ts": 1}, {"src": "y", "ts": 1}]\n')
    assert "2 rows kept out; SHOW QUARANTINE s shows why" in kept_out
    assert "Statements end" in terminal.type("help;\n")
    terminal.type('push s {"src": 7, "ts": 1}\n')
    assert re.search(r"7 +1\b", terminal.type("view counts;\n"))
    terminal.type("SELECT src\n", "...> ")
    terminal.rest()
    terminal.type("\x03")  # it drops what was typed
    assert "src" in terminal.type("show late s;\n")
    assert "DESCRIBE counts" in terminal.type("DESCR\tcou\t;\n")
    terminal.type("-- its password is 'x'\n", "> ")
    os.write(terminal._mine, b"quit\n")
    assert terminal.left() == 0
    history = tmp_path / "state" / "penstock" / "history"
    assert "view counts;" in history.read_text()
    assert "password" not in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700


def test_watch_is_redrawn_until_ctrl_c(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(json.dumps({"src": 41, "ts": 1}) + "\n")
    terminal.type(f"{STREAM} FROM json OPTIONS (path 'in');\n")
    terminal.type(VIEW + ";\n")
    terminal.type("watch counts;\n", "41")
    (tmp_path / "in" / "_2").write_text(json.dumps({"src": 42, "ts": 2}) + "\n")
    (tmp_path / "in" / "_2").rename(tmp_path / "in" / "2.json")
    terminal.wait("42")
    terminal.type("\x03")
    os.write(terminal._mine, b"\x04")  # Ctrl-D
    assert terminal.left() == 0


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("quit", "quit"), ("EXIT;", "EXIT"), ("\\q", "q"), (".quit", "quit"), ("?", "?"),
        ("\\?", "?"), ("watch v;", "watch v"), ("\\push s [1];", "push s [1]"),
        ("SELECT 1;", None), ("watching", None), ("", None), ("wach v", "wach v"),
        ("with", None), ("SELEC 1", None), ("  help ", "help"),
    ],
)  # fmt: skip
def test_what_is_a_command(line: str, command: str | None) -> None:
    assert as_command(line) == command


def test_quit_leaves_also_inside_a_statement_but_other_words_do_not() -> None:
    gatherer = Gatherer()
    assert gatherer.add("SELECT k\n") == []
    assert gatherer.add("view\n") == []
    assert gatherer.add("quit\n") == ["quit"]


def test_completion_knows_names_keywords_and_commands() -> None:
    complete = Completer(lambda: ["trades", "Sym", "sym"], ["watch", "view"])
    assert complete.candidates("tr") == ["trades"]
    assert complete.candidates("sel") == ["select "]
    assert complete.candidates("SEL") == ["SELECT "]
    assert complete.candidates("sy") == ["Sym", "sym"]
    assert complete.candidates("\\wa") == ["\\watch "]
    assert complete.candidates("wa") == ["watch "]
    assert complete("tr", 0) == "trades"
    assert complete("tr", 1) is None
