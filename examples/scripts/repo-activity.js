// Who worked on some repositories: commits, first and last day, most active first.
// input: {"repos": ["/path/to/one", "/path/to/other"]}; "since" may be added.
// A repository that can't be read is named, and keeps no other from being counted.

const slots = call_tools(input.repos.map(repo => ({
  server: "git",
  tool: "git_log",
  args: {
    repo_path: repo,
    max_count: 1000,
    ...(input.since && {start_timestamp: input.since}),
  },
})));

const authors = new Map();
const unread = [];
slots.forEach((slot, n) => {
  if (!slot.ok) {
    unread.push({repo: input.repos[n], error: slot.error.message});
    return;
  }
  const text = slot.result.content[0].text;
  for (const [, name, day] of text.matchAll(/^Author: (.*)\nDate: (\d{4}-\d\d-\d\d)/gm)) {
    const seen = authors.get(name) ?? {name, commits: 0, first: day, last: day};
    seen.commits += 1;
    if (day < seen.first) seen.first = day;
    if (day > seen.last) seen.last = day;
    authors.set(name, seen);
  }
});

return {authors: [...authors.values()].sort((a, b) => b.commits - a.commits), unread};
