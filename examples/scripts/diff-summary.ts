// How many lines each file has gained and lost between the working tree's HEAD and another revision.
// input: {"repo": "/path/to/repository", "target": "main"}

interface Change { file: string; added: number; removed: number }

const diff: string = await tools.git.git_diff({
  repo_path: input.repo,
  target: input.target,
  context_lines: 0,
});

const changes: Change[] = diff.split(/^diff --git /m).slice(1).map(part => {
  const [head, ...lines] = part.split("\n");
  // What stands before the first @@ names files and is no change.
  const body = lines.slice(Math.max(lines.findIndex(line => line.startsWith("@@")), 0));
  return {
    file: head.replace(/^.* b\//, ""),
    added: body.filter(line => line.startsWith("+")).length,
    removed: body.filter(line => line.startsWith("-")).length,
  };
});

({
  files: changes.sort((a, b) => b.added + b.removed - a.added - a.removed),
  added: changes.reduce((sum, change) => sum + change.added, 0),
  removed: changes.reduce((sum, change) => sum + change.removed, 0),
});
