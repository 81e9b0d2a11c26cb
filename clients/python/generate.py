"""Generates the endpoints, row types and errors of the client from the OpenAPI document.

``python3 generate.py`` writes the files; with ``--check`` it only reports whether they differ, and then ends with 1.
It needs Python 3.10 and no packages.
"""

import difflib
import json
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENT = json.loads((HERE / "../../test/openapi.json").read_text(encoding="utf-8"))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
WIDTH = 120

Schema = dict[str, Any]

# Parameters with this pattern are numbers. The contract describes them as text, which generated clients do not round.
DECIMAL_PATTERN = r"^[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"

# The contract lacks the format of these dates. Adding it would retype them in other generated clients (§9.2).
DATES = {
    "ChangeEvent.effective_date",
    "Endpoint.sunset",
    "EndpointRemovedDetails.sunset",
    "HistoricalTicker.date",
    "LineageEvent.effective_date",
}


# ---------------------------------------------------------------------------------------------------------------------
# Names and text
# ---------------------------------------------------------------------------------------------------------------------


def endpoint_name(path: str) -> str:
    """Returns ``gap_stats_advanced`` for ``/v1/gap-stats-advanced``. Paths and these names never change."""
    return re.sub(r"[-/.]+", "_", re.sub(r"^/(v1/)?", "", path))


def pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def constant(name: str) -> str:
    return snake(name).upper()


def wrap(text: str, indent: int, *, hanging: int = 0) -> str:
    first, rest = " " * indent, " " * (indent + hanging)
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def docstring(text: str, indent: int) -> str:
    """Returns a docstring, on one line if it fits."""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    line = f'{" " * indent}"""{text}"""'
    if "\n" not in text and len(line) <= WIDTH:
        return line
    body = "\n".join(wrap(paragraph, indent) for paragraph in f'"""{text}'.split("\n"))
    return f'{body}\n{" " * indent}"""'


def call(prefix: str, arguments: list[str], indent: int, suffix: str = "") -> str:
    """Returns a call or signature, on one line if it fits, otherwise with as many arguments per line as fit."""
    line = f"{' ' * indent}{prefix}({', '.join(arguments)}){suffix}"
    if len(line) <= WIDTH:
        return line
    lines = [""]
    for argument in arguments:
        if lines[-1] and len(lines[-1]) + len(argument) + 2 + indent + 4 > WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{argument},"
    inner = "\n".join(f"{' ' * (indent + 4)}{line}" for line in lines)
    return f"{' ' * indent}{prefix}(\n{inner}\n{' ' * indent}){suffix}"


def literal(values: list[str], prefix: str, indent: int = 0) -> str:
    return call(prefix, [json.dumps(value) for value in values], indent).replace("(", "[", 1)[:-1] + "]"


def is_identifier(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


# ---------------------------------------------------------------------------------------------------------------------
# Schemas
# ---------------------------------------------------------------------------------------------------------------------


class Types:
    """The declarations of ``types.py``, and the structures in ``_contract.py`` that decode them."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.structures: dict[str, str] = {}
        self.missing_dates = set(DATES)

    def field(self, schema: Schema, owner: str, name: str) -> tuple[str, str, bool, bool]:
        """Returns the type, the kind, and whether the value is nullable and whether it is a list."""
        if "allOf" in schema:
            return self.field(schema["allOf"][0], owner, name)
        if "oneOf" in schema:
            return self.union(schema["oneOf"])
        if "anyOf" in schema:
            choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
            (choice,) = choices
            type_, kind, _, is_list = self.field(choice, owner, name)
            return f"{type_} | None", kind, True, is_list
        if "$ref" in schema:
            reference = schema["$ref"].rsplit("/", 1)[1]
            if "enum" in SCHEMAS[reference]:
                self.alias(reference, SCHEMAS[reference]["enum"])
                return f"{reference} | str", '"text"', False, False
            self.structure(reference, SCHEMAS[reference])
            return reference, constant(reference), False, False
        if schema.get("type") == "array":
            type_, kind, nullable, is_list = self.field(schema["items"], owner, name)
            if nullable or is_list:
                raise ValueError(f"{owner}.{name}: lists of lists and of nulls are not supported")
            return f"list[{type_}]", kind, False, True
        if schema.get("type") == "object" and "properties" in schema:
            nested = f"{owner}{pascal(name)}"
            self.structure(nested, schema)
            return nested, constant(nested), False, False
        if "enum" in schema:
            return f"Literal[{', '.join(map(json.dumps, schema['enum']))}] | str", '"text"', False, False
        kinds = {
            ("string", None): ("str", "text"),
            ("string", "date"): ("dt.date", "date"),
            ("string", "date-time"): ("dt.datetime", "datetime"),
            ("integer", "int64"): ("int", "integer"),
            ("number", "double"): ("Decimal", "decimal"),
            ("boolean", None): ("bool", "boolean"),
            ("object", None): ("dict[str, JsonValue]", "json"),
            (None, None): ("JsonValue", "json"),
        }
        format_ = schema.get("format")
        if f"{owner}.{name}" in DATES:
            self.missing_dates.discard(f"{owner}.{name}")
            format_ = "date"
        type_, kind = kinds[schema.get("type"), format_]
        return type_, f'"{kind}"', False, False

    def union(self, choices: list[Schema]) -> tuple[str, str, bool, bool]:
        """Merges the types of rows into one structure. Fields that not all types have are optional."""
        names = [choice["$ref"].rsplit("/", 1)[1] for choice in choices]
        properties: Schema = {}
        for name in names:
            self.structure(name, SCHEMAS[name])
            for field, schema in SCHEMAS[name]["properties"].items():
                known = properties.setdefault(field, schema)
                if self.field(known, name, field)[1:] != self.field(schema, name, field)[1:]:
                    raise ValueError(f"{field} differs between {' and '.join(names)}")
        required = set.intersection(*(set(SCHEMAS[name]["required"]) for name in names))
        self.structure("Or".join(names), {"properties": properties, "required": required}, declared=False)
        return " | ".join(names), constant("Or".join(names)), False, False

    def alias(self, name: str, values: list[str]) -> str:
        self.declarations.setdefault(name, f"{literal(values, f'{name} = Literal')}")
        return name

    def union_alias(self, name: str, union: str) -> str:
        self.declarations[name] = f"{name} = {union}"
        return name

    def structure(self, name: str, schema: Schema, *, declared: bool = True) -> None:
        if name in self.structures:
            return
        lines = [f"class {name}(TypedDict):"]
        if "description" in schema:
            lines += [docstring(schema["description"], 4), ""]
        fields: list[str] = []
        for field, property_ in schema["properties"].items():
            if not is_identifier(field):
                raise ValueError(f"{name}.{field} cannot be a field")
            type_, kind, nullable, is_list = self.field(property_, name, field)
            required = field in schema.get("required", ())
            declaration = f"    {field}: {type_ if required else f'NotRequired[{type_}]'}"
            lines.append(declaration)
            description = describe(property_)
            if description:
                lines.append(docstring(description, 4))
            flags = "".join(
                f", {flag}"
                for flag, is_set in [
                    ("nullable=True", nullable),
                    ("required=False", not required),
                    ("is_list=True", is_list),
                ]
                if is_set
            )
            fields.append(f'Field("{field}", {kind}{flags})')
        if declared:
            self.declarations[name] = "\n".join(lines)
        inner = "\n".join(f"    {field}," for field in fields)
        self.structures[name] = f"{constant(name)} = Structure(\n{inner}\n)"


def describe(schema: Schema) -> str:
    if "description" in schema:
        return str(schema["description"])
    parts = [*schema.get("allOf", []), *schema.get("anyOf", [])]
    return next((part["description"] for part in parts if "description" in part), "")


# ---------------------------------------------------------------------------------------------------------------------
# Endpoints
# ---------------------------------------------------------------------------------------------------------------------


def json_endpoints() -> Iterator[tuple[str, Schema, Schema]]:
    """Yields the path, operation and schema of every endpoint that responds with JSON."""
    for path, methods in DOCUMENT["paths"].items():
        operation = methods["get"]
        content = operation["responses"]["200"]["content"]
        if "application/json" in content:
            yield path, operation, content["application/json"].get("schema", {})


def parameter_type(endpoint: str, parameter: Schema, types: Types) -> str:
    name, schema = parameter["name"], parameter["schema"]
    if name == "limit" and schema["type"] == "string":
        return 'int | Literal["all"]'
    reference = schema.get("$ref") or schema.get("items", {}).get("$ref")
    if reference:
        named = reference.rsplit("/", 1)[1]
        alias = types.alias(named, SCHEMAS[named]["enum"])
        return f"OneOrMore[types.{alias}]" if "items" in schema else f"types.{alias}"
    if schema["type"] == "object":
        return "Mapping[str, QueryValue]"
    if "enum" in schema:
        return f"types.{types.alias(f'{pascal(endpoint)}{pascal(name)}', schema['enum'])}"
    if schema.get("pattern") == DECIMAL_PATTERN:
        return "Number"
    if schema["type"] == "string" and "comma-separated" in parameter.get("description", ""):
        return "OneOrMore[str]"
    kinds = {
        ("string", None): "str",
        ("string", "date"): "str | dt.date",
        ("integer", "int64"): "int",
        ("boolean", None): "bool",
    }
    return kinds[schema["type"], schema.get("format")]


def signature(parameters: list[Schema], endpoint: str, types: Types) -> list[str]:
    required = [parameter for parameter in parameters if parameter.get("required")]
    optional = [parameter for parameter in parameters if not parameter.get("required")]
    return [
        "self",
        *(f"{parameter['name']}: {parameter_type(endpoint, parameter, types)}" for parameter in required),
        *(["*"] if optional else []),
        *(f"{parameter['name']}: {parameter_type(endpoint, parameter, types)} | None = None" for parameter in optional),
    ]


def method_docstring(path: str, operation: Schema, parameters: list[Schema]) -> str:
    text = operation.get("description", operation.get("summary", path)).replace("\n\n", "\n")
    lines = [wrap(f'"""{text}', 8), "", f"        ``GET {path}``"]
    if operation.get("deprecated"):
        lines[2] += ", deprecated"
    if parameters:
        lines += ["", "        Args:"]
        for parameter in parameters:
            lines.append(wrap(f"{parameter['name']}: {parameter.get('description', '')}".strip(), 12, hanging=4))
    return "\n".join([*lines, '        """']).replace("\\", "\\\\")


def endpoint_parameters(operation: Schema) -> list[Schema]:
    """Returns all parameters except ``format``, which the client chooses."""
    parameters = [parameter for parameter in operation.get("parameters", []) if parameter["name"] != "format"]
    for parameter in parameters:
        if parameter["in"] != "query" or not is_identifier(parameter["name"]):
            raise ValueError(f"{parameter['name']} cannot be a keyword argument")
    return parameters


def render_endpoints(types: Types) -> tuple[str, str]:
    """Renders the specifications of the endpoints, and the methods of both clients."""
    specifications: list[str] = []
    methods: dict[str, list[str]] = {"": [], "Async": []}
    for path, operation, schema in json_endpoints():
        name = endpoint_name(path)
        parameters = endpoint_parameters(operation)
        properties = schema.get("properties", {})
        if "page" in properties:
            body = f"{pascal(name)}Page"
            types.structure(body, schema)
            row, row_structure, _, _ = types.field(properties["results"]["items"], body, "results")
            if " | " in row:
                row = types.union_alias(f"{pascal(name)}Row", row)
            generic, factory = f"types.{body}, types.{row}", "ListEndpoint"
            arguments = [f'"{path}"', constant(body), row_structure]
            maker, result = "_list", "ListCall"
        else:
            body = f"{pascal(name)}Body" if properties else "JsonValue"
            if properties:
                types.structure(body, schema)
            generic, factory = f"types.{body}", "Endpoint"
            arguments = [f'"{path}"', constant(body) if properties else "None"]
            maker, result = "_call", "Call"
        specifications.append(call(f"{name.upper()}_ENDPOINT = {factory}[{generic}]", arguments, 0))
        pairs = [f'"{parameter["name"]}": {parameter["name"]}' for parameter in parameters]
        statement = f"return self.{maker}(_contract.{name.upper()}_ENDPOINT, {{"
        body_line = f"        {statement}{', '.join(pairs)}}})"
        if len(body_line) > WIDTH:
            # The suffix makes the call too long for one line.
            lines_of_pairs = call("", pairs, 8, " " * WIDTH).split("\n")[1:-1]
            body_line = "\n".join([f"        {statement}", *lines_of_pairs, "        })"])
        for prefix, lines in methods.items():
            returns = f" -> {prefix}{result}[{generic}]:"
            head = call(f"def {name}", signature(parameters, name, types), 4, returns)
            lines.append("\n".join([head, method_docstring(path, operation, parameters), body_line]))
    classes = [CLIENT_CLASS.format(prefix=prefix, methods="\n\n".join(lines)) for prefix, lines in methods.items()]
    return "\n".join(specifications), "\n\n".join(classes)


# ---------------------------------------------------------------------------------------------------------------------
# Errors
# ---------------------------------------------------------------------------------------------------------------------


def error_schemas() -> Iterator[tuple[str, Schema]]:
    """Yields the name and the schema of each ``error``. Those of statuses with several codes are components."""
    for name, schema in SCHEMAS.items():
        properties = schema.get("properties", {})
        error = properties.get("error", {})
        if "enum" in properties.get("code", {}) and name.endswith("Error"):
            yield name.removesuffix("Error"), schema
        elif "code" in error.get("properties", {}):
            yield name, {"description": schema.get("description"), **error}


def render_errors(types: Types) -> str:
    """Renders the exception classes, and the table from codes to classes."""
    schemas = dict(error_schemas())
    by_code: dict[str, list[str]] = {}
    for name, schema in schemas.items():
        by_code.setdefault(schema["properties"]["code"]["enum"][0], []).append(name)
    classes: list[str] = []
    table: list[str] = []
    for code, variants in sorted(by_code.items()):
        (base,) = [name for name in variants if snake(name) == code]
        entries: list[str] = []
        for name in [base, *sorted(set(variants) - {base})]:
            error = schemas[name]["properties"]
            lines = [
                f"class {name}({'ApiError' if name == base else base}):",
                docstring(schemas[name].get("description") or f"The error ``{code}``.", 4),
                "",
                f'    code = "{code}"',
            ]
            structure = "None"
            if "details" in error:
                details, structure, _, _ = types.field(error["details"], name, "details")
                structure = f"_contract.{structure}"
                lines.append(f"    details: types.{details}")
                for field in error["details"]["properties"]:
                    type_ = types.field(error["details"]["properties"][field], details, field)[0]
                    required = field in error["details"]["required"]
                    type_ = re.sub(r"\b([A-Z]\w+)", lambda match: qualify(match[0]), type_)
                    value = f'self.details["{field}"]' if required else f'self.details.get("{field}")'
                    returns = type_ if required else f"{type_} | None"
                    lines += ["", "    @property", f"    def {field}(self) -> {returns}:"]
                    description = describe(error["details"]["properties"][field])
                    lines += [docstring(description, 8)] if description else []
                    lines.append(f"        return {value}")
            classes.append("\n".join(lines))
            entries.insert(0, f"({name}, {structure})")
        table.append(f'    "{code}": ({", ".join(entries)},),')
    body = "\n".join(table)
    annotation = "dict[str, tuple[tuple[type[ApiError], Structure | None], ...]]"
    return "\n\n\n".join([*classes, f"ERRORS: {annotation} = {{\n{body}\n}}"])


def qualify(name: str) -> str:
    return name if name in ("Decimal", "Literal", "None") else f"types.{name}"


# ---------------------------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------------------------


HEADER = '''"""{}

Generated by ``generate.py`` from the OpenAPI document. Do not edit.
"""

'''

TYPES_HEADER = '''\
import datetime as dt
import sys
from decimal import Decimal
from typing import Literal, TypeAlias

if sys.version_info >= (3, 11):
    from typing import NotRequired, TypedDict
else:
    from typing_extensions import NotRequired, TypedDict

JsonValue: TypeAlias = "bool | int | Decimal | str | list[JsonValue] | dict[str, JsonValue] | None"
"""Any JSON, with decimals as ``Decimal``."""

'''

CONTRACT_HEADER = """\
from . import types
from ._structures import Endpoint, Field, ListEndpoint, Structure

"""

ENDPOINTS_HEADER = """\
import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

from . import _contract, types
from ._calls import AsyncCall, AsyncListCall, Call, ListCall
from ._queries import Number, OneOrMore, Query, QueryValue
from ._structures import Body, Endpoint, ListEndpoint, Row


"""

CLIENT_CLASS = '''\
class {prefix}Endpoints(ABC):
    """One method per endpoint. Nothing is sent before a method of the returned object is called."""

    @abstractmethod
    def _call(self, endpoint: Endpoint[Body], query: Query) -> {prefix}Call[Body]: ...

    @abstractmethod
    def _list(self, endpoint: ListEndpoint[Body, Row], query: Query) -> {prefix}ListCall[Body, Row]: ...

{methods}
'''

ERRORS_HEADER = """\
import datetime as dt

from . import _contract, types
from ._errors import ApiError
from ._structures import Structure


"""


def render() -> dict[str, str]:
    types = Types()
    specifications, methods = render_endpoints(types)
    errors = render_errors(types)
    if types.missing_dates:
        raise ValueError(f"The contract has no {types.missing_dates}")
    rows = "Types of responses. Rows are plain dictionaries, so they keep the fields of a newer service."
    contract = "\n\n".join([*types.structures.values(), specifications])
    return {
        "types.py": f"{HEADER.format(rows)}{TYPES_HEADER}{join_declarations(types.declarations)}\n",
        "_contract.py": f"{HEADER.format('How responses are decoded.')}{CONTRACT_HEADER}{contract}\n",
        "_endpoints.py": f"{HEADER.format('The methods of the clients.')}{ENDPOINTS_HEADER}{methods}",
        "_api_errors.py": f"{HEADER.format('The errors of the API, by code.')}{ERRORS_HEADER}{errors}\n",
    }


def join_declarations(declarations: dict[str, str]) -> str:
    """Joins the declarations in this order: literals, classes, unions. A class follows the classes of its fields."""
    classes = [text for text in declarations.values() if text.startswith("class ")]
    literals = [text for text in declarations.values() if " = Literal[" in text]
    unions = [text for text in declarations.values() if text not in classes and text not in literals]
    return "\n\n\n".join(["\n".join(literals), *classes, "\n".join(unions)])


def main() -> int:
    check = "--check" in sys.argv[1:]
    changed = False
    for name, text in render().items():
        file = HERE / "src" / "tickerline" / name
        current = file.read_text(encoding="utf-8") if file.exists() else ""
        if current == text:
            continue
        changed = True
        if check:
            sys.stdout.writelines(
                difflib.unified_diff(
                    current.splitlines(True), text.splitlines(True), f"committed {name}", f"new {name}", n=1
                )
            )
        else:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(HERE)}")
    if check and changed:
        print("The Python client differs from the contract. Run: python3 clients/python/generate.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
