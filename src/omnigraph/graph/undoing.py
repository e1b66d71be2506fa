"""Undo: reverting a commit, or everything since a revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.graph.boundary import names_damage
from omnigraph.graph.state import GraphState
from omnigraph.history import MAIN, Commit

if TYPE_CHECKING:
    from omnigraph.merge import By, MergeResult, Resolution, Strategy


@names_damage
class UndoMethods(GraphState):
    """The methods of a graph that undo changes. They add commits and remove none."""

    def revert(
        self,
        commit: str,
        *,
        branch: str = MAIN,
        strategy: Strategy = "fail",
        by: By = "row",
        dry_run: bool = False,
        actor: str | None = None,
        message: str | None = None,
        resolutions: Sequence[Resolution] = (),
    ) -> MergeResult:
        """Undo what a commit changed, on a branch as it is now, as one commit; for a merge, what it changed against its first
        parent. `commit` is any revision.

        Later changes to the same entities conflict as in a merge, and are settled in the same way: "ours" is the branch, "theirs" the state before
        the commit. MergeConflicts if a conflict is not settled; nothing is published then.

        >>> draft = g.branches.create("draft")
        >>> receipt = g.mutate("people.gq", {"name": "Ada", "age": 99}, name="grow", branch="draft")
        >>> result = g.revert("draft", branch="draft", actor="ada")
        >>> assert g.entity("Person", "Ada", revision="draft") == g.entity("Person", "Ada")
        """
        from omnigraph.merge import MergeOptions, revert_commit

        options = MergeOptions(strategy, by, dry_run, actor, message, resolutions)
        return revert_commit(self._repository, self._repository.history.revisions.commit(commit), branch, options)

    def reset(self, branch: str, to: str, *, actor: str | None = None, message: str | None = None) -> Commit | None:
        """Give a branch the content and the schema of any revision, as one commit; None if it has them already.

        The previous content stays in the branch's history. PreconditionFailed if another commit reaches the branch meanwhile.

        >>> assert g.reset("draft", "draft~1", actor="ada").kind == "reset"
        >>> g.branches.delete("draft", force=True)
        """
        from omnigraph.merge import reset_branch

        entry = self._repository.history.revisions.entry(to)
        return reset_branch(self._repository, branch, entry, actor=actor, message=message)
