"""The published JSON Schema of every payload, made from the models and kept in schemas/v1.

A schema says what `messages.check` does, in the part of JSON Schema 2020-12 that validators of
any language read alike: no formats, no look-around. One thing it cannot say: in JSON Schema's
data model 1.0 is 1, so a validator takes a whole number written with a fraction, which its
specification advises against writing and `check` refuses.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import StringSchema, WithDefaultSchema

from interlock.rooms.mail.message_types import TYPES, unknown
from interlock.rooms.mail.payloads import MODELS

DIRECTORY = "schemas/v1"


class _Generator(GenerateJsonSchema):
    """Says what the models demand and nothing about how they are built."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        # The only default is None, and it stands for a member that is absent.
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def str_schema(self, schema: StringSchema) -> JsonSchemaValue:
        made = super().str_schema(schema)
        if "pattern" in made:
            # In some languages $ also matches before a final newline; this never does.
            made["not"] = {"pattern": "\\n"}
        return made


def schema(type: str) -> dict[str, Any]:
    """The JSON Schema of the payload of this type. Raises UnknownType."""
    if type not in TYPES:
        raise unknown(type)
    made = TypeAdapter(MODELS[type]).json_schema(schema_generator=_Generator)
    return made | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"interlock/v1/{type}.json",
        "title": type,
    }


def write(directory: str) -> None:
    """Make the directory hold the current schemas and no other."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name in stale(directory):
        if name in _NAMES:
            (folder / name).write_bytes(_bytes(_NAMES[name]))
        else:
            (folder / name).unlink()


def stale(directory: str) -> list[str]:
    """The names of files that are missing, too many, or not what the models say now."""
    folder = Path(directory)
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return sorted(
        name
        for name in there | set(_NAMES)
        if name not in there
        or name not in _NAMES
        or (folder / name).read_bytes() != _bytes(_NAMES[name])
    )


_NAMES = {f"{type}.json": type for type in TYPES}


def _bytes(type: str) -> bytes:
    return (json.dumps(schema(type), indent=2, sort_keys=True) + "\n").encode()


def main(arguments: list[str] | None = None) -> None:
    from argparse import ArgumentParser

    parser = ArgumentParser(prog="python -m interlock.rooms.mail.schemas", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="exit 1 if any file is not current")
    what.add_argument("--write", action="store_true", help="bring the files up to date")
    parser.add_argument("directory", nargs="?", default=DIRECTORY)
    given = parser.parse_args(arguments)
    if given.write:
        write(given.directory)
    elif wrong := stale(given.directory):
        parser.exit(1, f"Not current: {', '.join(wrong)}. Run it with --write.\n")


if __name__ == "__main__":
    main()
