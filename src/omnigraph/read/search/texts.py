"""The texts that `nearest` looks for, as vectors: made once per query, before anything is read, whichever engine runs it."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.embedding.filling import TextVector, is_text
from omnigraph.errors import UsageError
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.plan import ReadPlan, TextQuery
from omnigraph.snapshot import View


def with_vectors(view: View, plan: ReadPlan, arguments: Arguments) -> Arguments:
    """The arguments of a call, with the vectors of the texts that its plan looks for."""
    missing = [text for text in plan.texts if text.name not in arguments.parameters]
    if not missing:
        return arguments
    vectors = {text.name: _vector(view, text, arguments) for text in missing}
    return replace(arguments, parameters={**arguments.parameters, **vectors})


def _vector(view: View, query: TextQuery, arguments: Arguments) -> list[float]:
    text = arguments.value(query.text)
    if not is_text(text):
        reason = "null" if text is None else "a text without words"
        raise UsageError(f"nearest was given {reason}", hint="pass a text to look for")
    text_vector = TextVector(query.owner, query.property, "", query.dimension, query.model)
    (vector,) = view.repository.filling().embedded(text_vector, [str(text)], "query", arguments.deadline).tolist()
    return list(vector)
