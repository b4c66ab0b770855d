// What changed in a repository since a date, by kind of change.
// input: {"repo": "/path/to/repository", "since": "2026-01-01"}; "until" and "limit" may be added.

const history = await tools.git.git_log({
  repo_path: input.repo,
  start_timestamp: input.since,
  ...(input.until && {end_timestamp: input.until}),
  max_count: input.limit ?? 1000,
});

// A subject such as "fix(api): say which field" is of kind "fix"; one without a kind is "other".
const changes = {};
for (const entry of history.split(/^Commit: (?=[0-9a-f]{40}$)/m).slice(1)) {
  const subject = entry.match(/^Message: (.*)$/m)?.[1] ?? "";
  const [, kind = "other", text] = subject.match(/^(?:(\w+)(?:\([^)]*\))?!?: )?(.*)$/);
  (changes[kind] ??= []).push(`${text} (${entry.slice(0, 7)})`);
}
return changes;
