"""YAML as a person would write it: named anchors, merge keys, a blank line between services."""

from __future__ import annotations

from typing import Any

import yaml

Mapping = dict[str, Any]
MERGE = "<<"


class Anchored(dict[str, Any]):
    """A mapping that is written once, under a name, and referred to after that."""

    def __init__(self, name: str, content: Mapping) -> None:
        super().__init__(content)
        self.name = name


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return not isinstance(data, Anchored)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.names: dict[yaml.Node, str] = {}

    def generate_anchor(self, node: yaml.Node) -> str:
        return self.names.get(node) or str(super().generate_anchor(node))

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


def _represent_anchored(dumper: _Dumper, data: Anchored) -> yaml.Node:
    node = dumper.represent_dict(data.items())
    dumper.names[node] = data.name
    return node


def _represent_list(dumper: _Dumper, data: list[Any]) -> yaml.Node:
    short = all(isinstance(item, str | int | float) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=short)


def _represent_text(dumper: _Dumper, data: str) -> yaml.Node:
    style = '"' if any(sign in data for sign in "${}: ") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(Anchored, _represent_anchored)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_text)


def to_yaml(content: Mapping, *, header: str = "") -> str:
    """`content` as YAML in its own order, with `header` as comments above it."""
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=98, allow_unicode=True)
    text = text.replace("'<<':", "<<:").replace('"<<":', "<<:")
    lines: list[str] = [f"# {line}".rstrip() for line in header.splitlines()]
    section = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            section = line.partition(":")[0]
            lines.append("")
        elif section == "services" and line.startswith("  ") and not line[2].isspace():
            lines.append("")
        lines.append(line)
    return "\n".join(lines).lstrip("\n").replace("services:\n\n", "services:\n") + "\n"


def documents(contents: list[Mapping], *, header: str = "") -> str:
    """Several YAML documents in one text, as Kubernetes reads them."""
    parts = [yaml.dump(c, Dumper=_Dumper, sort_keys=False, width=98) for c in contents]
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    return comment + "---\n" + "---\n".join(parts)
