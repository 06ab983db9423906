"""The credentials of a client: TLS, a certificate, an API key and metadata, from arguments or from
the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from nearfield._transport import Metadata

SYSTEM_AUTHORITIES = "system"
METADATA_NAME = re.compile(r"[a-z0-9_.-]+")
KEY = re.compile(r"nf_[^_/\s]+_[^/\s]+")
LOCAL = re.compile(
    r"(dns:(///)?|ipv4:|ipv6:)?(127\.0\.0\.1|\[::1\]|localhost):[^,]*|unix(-abstract)?:.*"
)


@dataclass(frozen=True)
class Identity:
    """credentials  of the channel; None: plaintext
    metadata     sent with each call; contains the key, so it is never shown
    """

    credentials: Any = None
    metadata: Metadata = ()

    def __repr__(self) -> str:
        return f"Identity(tls={self.credentials is not None})"


def given(argument: str | None, variable: str, default: str = "") -> str:
    """Returns the argument; if it is None, the environment's variable, or the default."""
    return os.environ.get(variable) or default if argument is None else argument


def read_file(option: str, path: str) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{option}: {path!r}; the name of a file is needed")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{option}: {path}: {error.strerror}") from None


def read_pem(option: str, path: str, what: str) -> bytes:
    """what: "certificate" or "private key"."""
    text = read_file(option, path)
    if not re.search(rb"-----BEGIN [A-Z0-9 ]*%b-----" % what.upper().encode(), text):
        raise ValueError(f"{option}: {path}: has no {what} in PEM")
    return text


def read_credentials(ca: str, client_cert: str, client_key: str) -> Any:
    if bool(client_cert) != bool(client_key):
        raise ValueError("client_cert, client_key: give both or none")
    if not ca:
        if client_cert:
            raise ValueError("client_cert: needs ca, because it is for TLS")
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=None if ca == SYSTEM_AUTHORITIES else read_pem("ca", ca, "certificate"),
        private_key=read_pem("client_key", client_key, "private key") if client_key else None,
        certificate_chain=read_pem("client_cert", client_cert, "certificate")
        if client_cert
        else None,
    )


def read_token(address: str, token_file: str, ca: str) -> str:
    if KEY.fullmatch(str(token_file).strip()) and not Path(token_file).exists():
        raise ValueError("token_file: this is a key, not the name of a file")
    if not ca and not LOCAL.fullmatch(address):
        raise ValueError(f"token_file: without ca the key would be sent unencrypted to {address}")
    token = read_file("token_file", token_file).decode("latin-1").strip()
    if not token or not all(" " <= c <= "~" for c in token):
        raise ValueError(f"token_file: {token_file}: has no key of printable ASCII characters")
    return token


def parse_metadata(text: str) -> dict[str, str]:
    entries = [entry.partition("=") for entry in text.split(",") if entry]
    if not all(equals for _, equals, _ in entries):
        raise ValueError("NEARFIELD_METADATA: must be name=value,name=value")
    return {name: value for name, _, value in entries}


def read_identity(
    address: str,
    ca: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    token_file: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Identity:
    """Reads the files. An argument that is None is that of the environment (NEARFIELD_CA,
    NEARFIELD_CLIENT_CERT, NEARFIELD_CLIENT_KEY, NEARFIELD_TOKEN_FILE, NEARFIELD_METADATA); an empty
    one is none. Raises ValueError."""

    authorities = given(ca, "NEARFIELD_CA")
    token = given(token_file, "NEARFIELD_TOKEN_FILE")
    sent = (
        parse_metadata(os.environ.get("NEARFIELD_METADATA", "")) if metadata is None else metadata
    )
    if not isinstance(sent, Mapping):
        raise TypeError(f'metadata: {type(sent).__name__}; give a dict {{"name": "value"}}')
    for name, value in sent.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"metadata: {name!r}: names and values are texts")
        if not METADATA_NAME.fullmatch(name) or not all(" " <= c <= "~" for c in value):
            raise ValueError(
                f"metadata: {name}: names have a-z 0-9 - _ . and values printable ASCII"
            )
    credentials = read_credentials(
        authorities,
        given(client_cert, "NEARFIELD_CLIENT_CERT"),
        given(client_key, "NEARFIELD_CLIENT_KEY"),
    )
    entries = list(sent.items())
    if token:
        entries.append(("authorization", f"Bearer {read_token(address, token, authorities)}"))
    return Identity(credentials, tuple(entries))
