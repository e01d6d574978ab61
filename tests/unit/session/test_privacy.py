"""Secrets, private files and names that stay in their directories."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

import penstock
from penstock.cli.output import ParquetWriter
from penstock.errors import DataError, PenstockError
from penstock.files.sinks import file_name
from penstock.secret import is_secret
from penstock.session.vault import Vault
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateSink

PASSWORD = "hunter2'drop"
SINK = (
    "CREATE SINK out FROM v INTO jdbc OPTIONS (url 'jdbc:postgresql://db/x', user 'me', "
    "password 'hunter2''drop')"
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- secrets ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("password", "x", True),
        ("kafka.sasl.jaas.config", "org…", True),
        ("fs.s3a.secret.key", "x", True),
        ("fs.s3a.access.key", "x", True),
        ("apiKey", "x", True),
        ("authToken", "x", True),
        ("url", "jdbc:postgresql://db/x?user=me&password=pw", True),
        ("url", "mongodb://me:pw@db/x", True),
        ("url", "jdbc:postgresql://db/x", False),
        ("path", "in/*.parquet", False),
        ("subscribe", "keys", False),
        ("kafka.sasl.mechanism", "PLAIN", False),
    ],
)
def test_what_is_secret(option: str, value: str, expected: bool) -> None:
    assert is_secret(option, value) is expected


def test_a_statement_has_references_in_place_of_secrets() -> None:
    vault, statement = Vault(), parse_statement(SINK)
    hidden = vault.hide(statement)
    assert isinstance(statement, CreateSink)
    assert isinstance(hidden, CreateSink)
    assert b"hunter2" not in pickle.dumps(hidden)
    assert "hunter2" not in repr(hidden)
    assert "password '***'" in hidden.source
    assert dict(vault.plain(hidden.options)) == dict(statement.options)
    assert vault.hide(statement) == hidden  # so that IF NOT EXISTS can compare definitions
    assert Vault().hide(statement) != hidden  # a reference does not give its secret away


def test_secrets_come_back_from_a_private_file(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    hidden = Vault(directory).hide(parse_statement(SINK))
    assert isinstance(hidden, CreateSink)
    assert mode(directory / "secrets.json") == 0o600
    assert dict(Vault(directory).plain(hidden.options))["password"] == PASSWORD
    (directory / "secrets.json").unlink()
    with pytest.raises(PenstockError) as caught:
        Vault(directory).plain(hidden.options)
    assert caught.value.code == "PS-STATE-010"
    (directory / "secrets.json").write_text("{")
    with pytest.raises(PenstockError, match=r"secrets\.json cannot be read"):
        Vault(directory)


def test_errors_do_not_show_secrets_that_were_met() -> None:
    Vault().hide(parse_statement(SINK))
    error = DataError(f"cannot log in with {PASSWORD}", remedy=f"is {PASSWORD} right?")
    assert "hunter2" not in str(error)
    assert "cannot log in with ***" in error.message


def test_no_file_of_a_checkpoint_but_one_holds_a_password(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    with penstock.connect(runner="inprocess", checkpoint=directory) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s [RANGE 5]")
        with pytest.raises(PenstockError) as caught:
            ps.sql(SINK)
        assert "hunter2" not in str(caught.value)
        shown = [ps.sql(f"SHOW {what}") for what in ("STREAMS", "QUERIES", "SINKS")]
        assert "hunter2" not in str([table.to_pylist() for table in shown] + [ps.stats()])
    for path in directory.rglob("*"):
        assert path.name == "secrets.json" or b"hunter2" not in path.read_bytes()


# ---- files -----------------------------------------------------------------------------
def test_a_checkpoint_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir(mode=0o755)
    with penstock.connect(runner="inprocess", checkpoint=directory) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
    assert mode(directory) == 0o700
    directory.chmod(0o755)
    penstock.connect(runner="inprocess", checkpoint=directory).close()
    assert mode(directory) == 0o700


def test_a_directory_that_holds_something_else_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    tmp_path.chmod(0o755)
    penstock.connect(runner="inprocess", checkpoint=tmp_path).close()
    assert (tmp_path / "session.pickle").exists()
    assert mode(tmp_path) & 0o555 == 0o555


def test_a_checkpoint_that_others_can_write_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    penstock.connect(runner="inprocess", checkpoint=directory).close()
    directory.chmod(0o777)
    with pytest.raises(PenstockError) as caught:
        penstock.connect(runner="inprocess", checkpoint=directory)
    assert caught.value.code == "PS-STATE-009"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_checkpoint_of_another_user_is_refused(tmp_path: Path, what: str) -> None:
    directory = tmp_path / "c"
    penstock.connect(runner="inprocess", checkpoint=directory).close()
    os.chown(directory if what == "directory" else directory / "session.pickle", 12345, -1)
    with pytest.raises(PenstockError) as caught:
        penstock.connect(runner="inprocess", checkpoint=directory)
    assert caught.value.code == "PS-STATE-009"
    assert "chown" in caught.value.remedy


# ---- names -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["../x", "..", ".", "/etc/x", "a/../../b", "a\0b", "x", "%2F"])
def test_a_name_stays_in_its_directory(tmp_path: Path, name: str) -> None:
    path = tmp_path / file_name(name)
    assert path.resolve().parent == tmp_path.resolve()
    path.write_text("there")
    assert [p.name for p in tmp_path.iterdir()] == [file_name(name)]


def test_different_names_are_different_files() -> None:
    names = ["../x", "..%2Fx", "%2E./x", ".x", "x", "%x"]
    assert len({file_name(name) for name in names}) == len(names)


def test_changes_of_a_query_with_an_odd_name_stay_in_out(tmp_path: Path) -> None:
    with penstock.connect(runner="inprocess") as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql('CREATE MATERIALIZED VIEW "../../x" AS SELECT k FROM s [RANGE 5]')
        ps.push("s", [{"k": 1, "ts": 1}])
        writer = ParquetWriter(str(tmp_path / "a" / "out"))
        writer.changes("../../x", ps["../../x"].changes(), 1)
        writer.view("../../x", ps["../../x"].view())
        writer.close()
    found = [p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()]
    assert len(found) == 2
    assert all(str(path).startswith("a/out/") for path in found)


@pytest.mark.parametrize("written", ["12345", "'12345'", "'1''2'", "'é 5'"])
def test_a_password_is_hidden_however_it_is_written(written):
    text = "CREATE SINK k FROM v INTO jdbc OPTIONS (password {}, user 'ann')"
    hidden = Vault().hide(parse_statement(text.format(written)))
    assert hidden.source == text.format("'***'")


def test_secrets_that_cannot_be_written_are_an_error_of_the_checkpoint(tmp_path):
    directory = tmp_path / "cp"
    directory.mkdir(mode=0o700)
    vault = Vault(directory)
    (directory / "secrets.json").mkdir()  # as if the file system refused
    with pytest.raises(PenstockError, match="cannot hold"):
        vault.hide(parse_statement(SINK))
