/** Branches and tags: where they are, how far apart, and what may be done with them. */
import { useState } from "preact/hooks";
import { graphPath } from "./api";
import { plural, shown } from "./format";
import { go, graph, link, readAgain, refs, whyNot } from "./state";
import { Age, Button, Card, CommitLink, Dialog, Empty, Head, Loaded, MenuButton, useWrite } from "./ui";
import { NameDialog } from "./history";
import type { BranchDetail } from "./wire";

export function Refs() {
  const [making, setMaking] = useState<"branch" | "tag" | null>(null);
  const [dropping, setDropping] = useState<{ kind: "branch"; branch: BranchDetail } | { kind: "tag"; name: string } | null>(null);
  return (
    <>
      <Head title="Refs" text="Branches and tags, all compared with main.">
        <Button why={whyNot("branch_create")} onClick={() => setMaking("branch")}>New branch</Button>
        <Button why={whyNot("tag_create")} onClick={() => setMaking("tag")}>New tag</Button>
      </Head>
      <Loaded load={refs.value}>
        {({ branches, tags }) => (
          <>
            <Card title="Branches">
              <div class="scroll" tabIndex={0} role="group" aria-label="Branches">
                <table>
                  <thead><tr><th>Branch</th><th>Head</th><th>Last commit</th><th>By</th><th>Age</th><th class="number">Ahead</th><th class="number">Behind</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
                  <tbody>
                    {branches.map((branch) => (
                      <tr key={branch.name}>
                        <td><a class="chip branch" href={link("overview", [], { rev: branch.name, at: null })}>{branch.name}</a> {branch.protected && <span class="chip">protected</span>}</td>
                        <td><CommitLink id={branch.head.graph_commit_id} /></td>
                        <td class="line">{shown(branch.head.message ?? branch.head.kind ?? "", 60)}</td>
                        <td class="muted">{branch.head.actor_id ?? ""}</td>
                        <td class="line muted"><Age commit={branch.head} /></td>
                        <td class="number">{branch.name === "main" ? "" : branch.ahead}</td>
                        <td class="number">{branch.name === "main" ? "" : branch.behind}</td>
                        <td class="actions">
                          <MenuButton
                            label={`More about ${branch.name}`}
                            items={[
                              { text: "Browse", run: () => go(link("browse", [], { rev: branch.name, at: null })) },
                              { text: "Compare with main", why: branch.name === "main" ? "this is main" : "", run: () => go(link("diff", ["main", branch.name])) },
                              { text: "Review the merge into main", why: branch.name === "main" ? "this is main" : "", run: () => go(link("merge", [branch.name, "main"])) },
                              { text: "Delete", why: branch.name === "main" ? "main cannot be deleted" : whyNot("branch_delete", branch.name), run: () => setDropping({ kind: "branch", branch }) },
                            ]}
                          />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </Card>
            <Card title="Tags">
              {tags.length ? (
                <table>
                  <thead><tr><th>Tag</th><th>Commit</th><th>Branch</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
                  <tbody>
                    {tags.map((tag) => (
                      <tr key={tag.name}>
                        <td><a class="chip tag" href={link("overview", [], { rev: tag.name, at: null })}>{tag.name}</a></td>
                        <td><CommitLink id={tag.graph_commit_id} /></td>
                        <td class="muted">{tag.graph_branch}</td>
                        <td class="actions">
                          <MenuButton label={`More about ${tag.name}`} items={[{ text: "Compare with main", run: () => go(link("diff", [tag.name, "main"])) }, { text: "Delete", why: whyNot("tag_delete"), run: () => setDropping({ kind: "tag", name: tag.name }) }]} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              ) : (
                <Empty title="No tags">A tag names a commit, and cleanup keeps it.</Empty>
              )}
            </Card>
          </>
        )}
      </Loaded>
      {making && <NameDialog kind={making} id="main" onClose={() => setMaking(null)} />}
      {dropping && <DropDialog what={dropping} onClose={() => setDropping(null)} />}
    </>
  );
}

function DropDialog({ what, onClose }: { what: { kind: "branch"; branch: BranchDetail } | { kind: "tag"; name: string }; onClose: () => void }) {
  const name = what.kind === "branch" ? what.branch.name : what.name;
  const ahead = what.kind === "branch" ? what.branch.ahead : 0;
  const write = useWrite<unknown>(() => {
    onClose();
    readAgain();
  });
  const path = graphPath(graph.value, `/${what.kind === "branch" ? "branches" : "tags"}/${encodeURIComponent(name)}`);
  return (
    <Dialog title={`Delete the ${what.kind} ${name}?`} onClose={onClose}>
      <p>{what.kind === "tag" ? "Its commit stays as long as a branch reaches it." : ahead ? `${plural(ahead, "commit")} of it ${ahead === 1 ? "is" : "are"} not in main. Unless another branch or tag has ${ahead === 1 ? "it" : "them"}, only the commit id finds ${ahead === 1 ? "it" : "them"} until cleanup.` : "All its commits are in main: nothing becomes unreachable."}</p>
      {write.problem}
      <div class="row"><Button kind="danger" onClick={() => void write.run({ method: "DELETE", path: what.kind === "branch" ? `${path}?force=true` : path })}>Delete</Button><Button onClick={onClose}>Keep it</Button></div>
    </Dialog>
  );
}
