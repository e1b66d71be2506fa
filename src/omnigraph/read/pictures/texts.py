"""Pictures as text for other drawing programs. Data is always quoted as text, so that it is never taken for their syntax."""

from __future__ import annotations

from omnigraph.read.pictures.picture import Picture, PictureNode


def mermaid_text(picture: Picture) -> str:
    lines = ["flowchart LR"]
    lines += [f'  n{place}["{_mermaid(node)}"]' for place, node in enumerate(picture.nodes)]
    lines += [f'  n{edge.source} -- "{_entities(edge.label)}" --> n{edge.target}' for edge in picture.edges]
    if picture.left_out:
        lines.append(f'  more["… {picture.left_out} more"]')
    return "\n".join(lines) + "\n"


def _mermaid(node: PictureNode) -> str:
    return "<br/>".join(_entities(text) for text in titled(node))


def _entities(text: str) -> str:
    """Letters, digits, blanks and a few marks as they are, all other characters by number: Mermaid gives too many of them a
    meaning."""
    return "".join(
        letter if letter.isalnum() or letter in " _-:.,@×" else f"#{ord(letter)};" for letter in one_line(text)
    )


def dot_text(picture: Picture) -> str:
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box];"]
    for place, node in enumerate(picture.nodes):
        label = "\\n".join(_quoted(text) for text in titled(node))
        lines.append(f'  n{place} [label="{label}"];')
    lines += [f'  n{edge.source} -> n{edge.target} [label="{_quoted(edge.label)}"];' for edge in picture.edges]
    if picture.left_out:
        lines.append(f'  more [label="… {picture.left_out} more", shape=plaintext];')
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def titled(node: PictureNode) -> list[str]:
    """The lines of a box, its title first."""
    return [node.type_name if node.id is None else f"{node.type_name} {node.id}", *node.lines]


def one_line(text: str) -> str:
    """Text without line breaks, control characters, or characters that XML does not allow."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)
