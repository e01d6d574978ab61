"""Keeps the secrets of statements apart from everything that is written, shown or logged.

A statement enters the session with references in place of passwords. The passwords are in
`secrets.json` of the checkpoint, a file that only its owner can read. Code that opens a source or a
sink asks for them by reference.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import replace
from pathlib import Path

from sqlglot.tokenizer_core import TokenType

from penstock import secret
from penstock.errors import StateError
from penstock.session.directory import writing
from penstock.sql import statements as st
from penstock.sql.cursor import Text
from penstock.sql.dialect import tokenize
from penstock.state.private import make_private

_FILE = "secrets.json"
_REFERENCE = "secret:"


def _masked(source: str, value: str) -> str:
    """A statement's text with a secret masked; the secret may be a string or a number in it."""
    for token in reversed(tokenize(Text(source))):
        if token.text == value and token.token_type in (TokenType.STRING, TokenType.NUMBER):
            source = f"{source[: token.start]}'{secret.MASK}'{source[token.end + 1 :]}"
    return source


class Vault:
    """Secrets by reference; equal secrets have equal references."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._salt = os.urandom(16).hex()
        self._kept: dict[str, str] = {}
        self._load()

    def hide(self, statement: st.Statement) -> st.Statement:
        """Replace the secrets of a statement by references."""
        if not isinstance(statement, st.CreateStream | st.CreateSink):
            return statement
        found = [(k, v) for k, v in statement.options if secret.is_secret(k, v)]
        if not found:
            return statement
        options, source = dict(statement.options), statement.source
        for key, value in found:
            options[key] = self._put(value)
            source = _masked(source, value)
        self._save()
        return replace(statement, options=tuple(options.items()), source=source)

    def plain(self, options: st.Options) -> st.Options:
        """Replace the references in options by the secrets."""
        return tuple((key, self._get(key, value)) for key, value in options)

    def _put(self, value: str) -> str:
        secret.remember(value)
        digest = hmac.new(bytes.fromhex(self._salt), value.encode(), hashlib.sha256)
        reference = _REFERENCE + digest.hexdigest()[:32]
        self._kept[reference] = value
        return reference

    def _get(self, key: str, value: str) -> str:
        if not value.startswith(_REFERENCE) or value in self._kept:
            return self._kept.get(value, value)
        raise StateError(
            f"the secret of option {key} is missing from {self._directory or 'this session'}",
            code="PS-STATE-010",
            remedy=f"restore {_FILE} of the checkpoint, or start from an empty one",
        )

    # ---- the file ----------------------------------------------------------------------
    def _load(self) -> None:
        path = self._directory / _FILE if self._directory is not None else None
        if path is None or not path.exists():
            return
        try:
            found = json.loads(path.read_text())
            self._salt, self._kept = str(found["salt"]), dict(found["secrets"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"the checkpoint file {path} cannot be read",
                code="PS-STATE-003",
                remedy="restore the file from a backup, or start from an empty checkpoint",
            ) from error
        for value in self._kept.values():
            secret.remember(value)

    def _save(self) -> None:
        if self._directory is None:
            return
        with writing(self._directory):
            self._write(self._directory)

    def _write(self, directory: Path) -> None:
        make_private(directory)
        staged = directory / f"{_FILE}.{os.getpid()}"
        with open(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"salt": self._salt, "secrets": self._kept}, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(directory / _FILE)
