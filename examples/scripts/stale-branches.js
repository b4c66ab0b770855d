// Local branches whose last commit is older than some days, oldest first.
// input: {"repo": "/path/to/repository", "days": 30}; "today" (a date) may be added.

const today = input.today ?? (await tools.time.get_current_time({timezone: "UTC"})).datetime;
const listed = await tools.git.git_branch({repo_path: input.repo, branch_type: "local"});
const branches = listed.split("\n").map(line => line.replace(/^[* ]+/, "")).filter(Boolean);

const found = [];
for (let start = 0; start < branches.length; start += 100) {  // a batch takes a hundred
  const names = branches.slice(start, start + 100);
  const slots = call_tools(names.map(name => (
    {server: "git", tool: "git_show", args: {repo_path: input.repo, revision: name}})));
  slots.forEach((slot, n) => {
    if (!slot.ok) throw new Error(`${names[n]}: ${slot.error.message}`);
    const text = slot.result.content[0].text;
    const day = text.match(/^Date: +(\d{4}-\d\d-\d\d)/m)[1];
    const days = Math.floor((Date.parse(today) - Date.parse(day)) / 86_400_000);
    if (days > input.days) found.push({branch: names[n], last: day, days});
  });
}
return found.sort((a, b) => b.days - a.days);
