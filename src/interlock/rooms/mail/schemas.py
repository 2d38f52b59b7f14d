"""The published JSON Schema of every payload, made from the models. `interlock.generate` writes
them to schemas/v1.

A schema states what `payloads.check` accepts. It uses the part of JSON Schema 2020-12 that has the
same meaning in all languages: no formats, no look-around. There is one exception. For JSON Schema,
the numbers 1.0 and 1 are equal, so a validator accepts 1.0 as a whole number. `check` refuses it.
"""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import StringSchema, WithDefaultSchema

from interlock.rooms.mail.message_types import TYPES, unknown
from interlock.rooms.mail.payloads import MODELS


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
