"""Files often found next to tools that are not tools. Each is recognized by members that only it
has.

Many have a name and a description, as a tool has.
https://docs.npmjs.com/cli/configuring-npm/package-json https://getcomposer.org/doc/04-schema.md
https://github.com/anthropics/mcpb/blob/main/MANIFEST.md
https://github.com/modelcontextprotocol/registry/tree/main/docs/reference/server-json
https://a2a-protocol.org/latest/specification/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA_OF_SCHEMAS = "json-schema.org"
"""A part of the `$schema` of a JSON Schema; any other is the schema of that file."""


@dataclass(frozen=True)
class FileKind:
    """`what` is for "This is ...". A file of this kind has every member of `members` with a value
    of that type, and at least one member of `one_of`, if there are some."""

    what: str
    members: Mapping[str, type | tuple[type, ...]]
    one_of: tuple[str, ...] = ()


_NPM = ("dependencies", "devDependencies", "peerDependencies", "scripts", "main", "module", "bin")
_NPM_TOO = ("exports", "types", "engines", "workspaces", "publishConfig", "packageManager", "files")
_PARTS = ("jobs", "stages", "steps")

FILE_KINDS = (
    FileKind("a VS Code extension (package.json)", {"contributes": dict, "engines": dict}),
    FileKind("a Composer package file (composer.json)", {"require": dict}, ("autoload", "license")),
    FileKind("an npm package file (package.json)", {"devDependencies": dict}),
    FileKind("an npm package file (package.json)", {"scripts": dict, "dependencies": dict}),
    FileKind("an npm lock file (package-lock.json)", {"lockfileVersion": int}),
    FileKind("a TypeScript configuration (tsconfig.json)", {"compilerOptions": dict}),
    FileKind("a Deno configuration (deno.json)", {"imports": dict}, ("tasks", "exports", "lint")),
    FileKind("a Python project file (pyproject.toml)", {"build-system": dict}),
    FileKind("a Python project file (pyproject.toml)", {"project": dict}, ("tool", "build-system")),
    FileKind("a Rust package file (Cargo.toml)", {"package": dict}),
    FileKind("a Rust workspace (Cargo.toml)", {"workspace": dict}),
    FileKind("a configuration of LangGraph (langgraph.json)", {"graphs": dict}),
    FileKind(
        "the manifest of an MCP bundle (manifest.json)", {"server": dict, "manifest_version": str}
    ),
    FileKind("the manifest of an MCP bundle (manifest.json)", {"server": dict, "dxt_version": str}),
    FileKind("the manifest of a browser extension (manifest.json)", {"manifest_version": int}),
    FileKind("the manifest of a web app", {"start_url": str, "icons": list}),
    FileKind(
        "an entry of the MCP registry (server.json)",
        {"name": str, "version": str},
        ("packages", "remotes"),
    ),
    FileKind("a configuration of Smithery (smithery.yaml)", {"startCommand": dict}),
    FileKind("a server of Docker's MCP registry (server.yaml)", {"about": dict, "meta": dict}),
    FileKind(
        "a plugin manifest (ai-plugin.json), whose functions are the operations of the OpenAPI"
        " document that it names",
        {"schema_version": str},
        ("name_for_model", "name_for_human"),
    ),
    FileKind("the card of an agent (A2A)", {"skills": list, "capabilities": dict}),
    FileKind("the card of an agent (A2A)", {"skills": list, "url": str}),
    FileKind("a cache point of Bedrock", {"cachePoint": dict}),
    FileKind("a list of plugins (marketplace.json)", {"owner": dict, "plugins": list}),
    FileKind("a configuration of mcp-agent", {"execution_engine": str}),
    FileKind("a GitHub workflow", {"jobs": dict, "on": (str, list, dict)}),
    FileKind("a GitHub Action (action.yml)", {"runs": dict}),
    FileKind("a pipeline", {"trigger": (str, list, dict)}, _PARTS),
    FileKind("a pipeline", {"pool": (str, dict)}, _PARTS),
    FileKind("a Docker Compose file", {"services": dict}),
    FileKind(
        "a development container (devcontainer.json)",
        {"image": str},
        ("features", "customizations"),
    ),
    FileKind("a Kubernetes resource", {"apiVersion": str, "kind": str}),
    FileKind("a CloudFormation template", {"Resources": dict}),
    FileKind("a workflow of n8n", {"nodes": list, "connections": dict}),
    FileKind("a workflow description (CWL)", {"cwlVersion": str}),
    FileKind("an add-on of Home Assistant", {"slug": str, "arch": list}),
    FileKind("an AsyncAPI document", {"asyncapi": str}),
    FileKind("an OpenRPC document", {"openrpc": str}),
    FileKind("a function of a smart contract (ABI)", {"inputs": list, "stateMutability": str}),
    FileKind("an event of a smart contract (ABI)", {"inputs": list, "anonymous": bool}),
    FileKind("a Postman collection", {"info": dict, "item": list}),
    FileKind(
        "a component of AutoGen, which contains code and no schema",
        {"component_type": str, "provider": str},
    ),
    FileKind("a prompt template", {"input_variables": list, "template": str}),
    FileKind(
        "the answer of an MCP server to initialize", {"protocolVersion": str, "serverInfo": dict}
    ),
    FileKind("a message of a conversation", {"role": str}, ("content", "parts", "tool_calls")),
)
"""The first that fits counts."""

PACKAGE_KINDS = (
    FileKind(
        "an npm package file (package.json)", {"name": str, "version": str}, (*_NPM, *_NPM_TOO)
    ),
    FileKind("the manifest of a package or a plugin", {"name": str, "version": str}, ("author",)),
    FileKind("a package file", {"name": str, "dependencies": dict}),
)
"""Of members that a tool may have, too: they count where no schema was found."""

CALL = "a call of a tool"
_CALL_TYPES = (
    *("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "tool-call"),
    *("function_call", "custom_tool_call", "mcp_call"),
)
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "properties")


def describe_package(entry: Mapping[str, Any]) -> str:
    """What `entry` is, if it has no schema of arguments and is of PACKAGE_KINDS; else ""."""
    return next((kind.what for kind in PACKAGE_KINDS if _is_of_kind(entry, kind)), "")


def describe_file(entry: Mapping[str, Any]) -> str:
    """What `entry` is, if it is of a kind that holds no tool; else ""."""
    if "answered_by" in entry or any(isinstance(entry.get(name), Mapping) for name in _SCHEMAS):
        return ""
    if _is_call(entry):
        return CALL
    return next((kind.what for kind in FILE_KINDS if _is_of_kind(entry, kind)), "")


def _is_of_kind(entry: Mapping[str, Any], kind: FileKind) -> bool:
    return all(isinstance(entry.get(name), types) for name, types in kind.members.items()) and (
        not kind.one_of or any(name in entry for name in kind.one_of)
    )


def _is_call(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a call with its arguments, as an answer of a model holds it."""
    if entry.get("type") in _CALL_TYPES:
        return True
    match entry:
        case {"function": Mapping() as function}:
            return "arguments" in function and "parameters" not in function
        case {"functionCall": Mapping()} | {"function_call": Mapping()}:
            return True
        case {"name": str(), "arguments": str()}:
            return True
        case {"name": str(), "id": str()} | {"name": str(), "call_id": str()} if (
            "type" not in entry
        ):
            return isinstance(entry.get("args", entry.get("arguments")), Mapping)
    return False


def foreign_schema(entry: Mapping[str, Any]) -> str:
    """The `$schema` of a file that is described by it and is not a schema itself; else ""."""
    of = entry.get("$schema")
    return of if isinstance(of, str) and SCHEMA_OF_SCHEMAS not in of else ""
