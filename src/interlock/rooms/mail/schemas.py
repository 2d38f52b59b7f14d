"""The published JSON Schema of every payload, made from the models and kept in schemas/v1.

A schema states what `payloads.check` accepts, in the part of JSON Schema 2020-12 that validators of
all languages read alike: no formats, no look-around. There is one exception. In JSON Schema 1.0 is
the same number as 1, so a validator accepts a whole number with a fraction, and `check` refuses it.
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
    """Makes the schema of the constraints, without titles and defaults of the models."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        # The only default is None, which means that the member is absent.
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def str_schema(self, schema: StringSchema) -> JsonSchemaValue:
        made = super().str_schema(schema)
        if "pattern" in made:
            # In some languages $ also matches before a final newline.
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


def current() -> dict[str, bytes]:
    """The contents of every schema file, by file name."""
    return {
        f"{type}.json": (json.dumps(schema(type), indent=2, sort_keys=True) + "\n").encode()
        for type in TYPES
    }


def write(directory: str) -> None:
    """Make the directory contain the current schemas and no other files."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = current()
    for name in stale(directory):
        if name in wanted:
            (folder / name).write_bytes(wanted[name])
        else:
            (folder / name).unlink()


def stale(directory: str) -> list[str]:
    """The names of files that are missing, superfluous, or not current."""
    folder = Path(directory)
    found = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
    wanted = current()
    return sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )


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
