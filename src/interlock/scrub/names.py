"""Recognise kinds of files by their name or first bytes: caches, databases, files for secrets, and
files of settings, in which values are unquoted."""

import re
from typing import Final

# Tools generate directories with these names, and can generate them again.
_DIRECTORIES: Final = re.compile(
    r"""(?isx)
    __pycache__ | node_modules | htmlcov | .+ \.egg-info
    | \. (?: pytest_cache | mypy_cache | ruff_cache | import_linter_cache | parcel-cache
           | sass-cache | cache | ccache | hypothesis | tox | nox | venv | eggs
           | ipynb_checkpoints | npm | next | nuxt | svelte-kit | turbo | gradle | terraform
           | interlock )
    """
)
_FILES: Final = re.compile(
    r"""(?isx)
    .+ \. (?: py[cod] | db | sqlite3? | s3db | sl3 | mdb | accdb | rdb | aof | ldb | dump | sw[nop]
            | class | tsbuildinfo | hprof )
    | .+ - (?: wal | shm | journal )
    | pyvenv\.cfg | \.ds_store | thumbs\.db | desktop\.ini | \.coverage (?: \..+ )? | \.eslintcache
    """
)
# Files with these names contain secrets of one machine.
_SECRET_FILES: Final = re.compile(
    r"""(?isx)
    \.env (?: \. (?! example$ | sample$ | template$ | dist$ ) .+ )?
    | \.netrc | _netrc | \.pgpass | \.htpasswd | \.git-credentials | \.pypirc
    | id_ (?: rsa | dsa | ecdsa | ed25519 ) | .+ \. (?: p12 | pfx | jks | keystore | ppk | kdbx )
    """
)
_SETTINGS: Final = re.compile(
    r"""(?isx)
    .+ \. (?: e?ya?ml | cnf | conf | config | cfg | cf | ini | properties | props | toml | env
            | envrc | tfvars | sh | bash | zsh | ksh | fish | bat | cmd | service | desktop
            | dockerfile | mk | npmrc )
    | (?: .+ \. )? env (?: \. .+ )? | \.env (?: \. .+ | rc )?
    | \. (?: npmrc | yarnrc | pypirc | netrc | pgpass | s3cfg | boto | my\.cnf | gitconfig
           | bashrc | zshrc | profile | bash_profile | zprofile | zshenv )
    | (?: Docker | Container | Make | Proc ) file (?: \. .+ )? | credentials | config
    """
)
_SCRIPT: Final = re.compile(rb"#!\s*/\S+?(?:/env\s+(?:-S\s+)?)?/?(?:ba|da|z|k|fi)?sh\b")
# Offset and bytes.
_MAGIC: Final = (
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\x37\x7f\x06\x82", "an SQLite write-ahead log"),
    (0, b"\x37\x7f\x06\x83", "an SQLite write-ahead log"),
    (0, b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "an SQLite journal"),
    (4, b"Standard Jet DB", "an Access database"),
    (4, b"Standard ACE DB", "an Access database"),
    (0, b"PGDMP", "a PostgreSQL dump"),
    (8, b"DUCK", "a DuckDB database"),
    (16, b"\xde\xc0\xef\xbe", "an LMDB database"),
    (12, b"\x61\x15\x06\x00", "a Berkeley database"),
    (12, b"\x62\x31\x05\x00", "a Berkeley database"),
    (0, b"\xce\x9a\x57\x13", "a GDBM database"),
    (0, b"\xcf\x9a\x57\x13", "a GDBM database"),
    (0, b"Signature: 8a477f597d28d172789f06886806bc55", "the tag of a cache directory"),
)
_REDIS: Final = re.compile(rb"REDIS\d{4}")
_SQL_DUMP: Final = re.compile(rb"\s*-- *(?:PostgreSQL database|MySQL|MariaDB) dump")


def generated_part(path: bytes) -> bytes | None:
    """Return the part of the path that is a cache or a database: the file, or a directory above it.
    Return None if there is none."""
    names = path.split(b"/")
    for depth, name in enumerate(names[:-1], 1):
        if _DIRECTORIES.fullmatch(name.decode("latin-1")):
            return b"/".join(names[:depth])
    return path if _FILES.fullmatch(names[-1].decode("latin-1")) else None


def holds_secrets(path: bytes) -> bool:
    """Return whether files with this name usually contain secrets."""
    return bool(_SECRET_FILES.fullmatch(path.rpartition(b"/")[2].decode("latin-1")))


def holds_settings(path: bytes) -> bool:
    """Return whether values are unquoted in files with this name."""
    return bool(_SETTINGS.fullmatch(path.rpartition(b"/")[2].decode("latin-1")))


def is_script(start: bytes) -> bool:
    """Return whether a file with these first bytes is a shell script."""
    return bool(_SCRIPT.match(start))


def generated_kind(start: bytes) -> str | None:
    """Return the kind of database or cache with these first bytes, or None."""
    for offset, magic, kind in _MAGIC:
        if start.startswith(magic, offset):
            return kind
    if _REDIS.match(start):
        return "a Redis dump"
    return "a dump of a database" if _SQL_DUMP.match(start) else None
