const log: string = await tools.git.git_log({ repo_path: input.repo, max_count: 100 });
const times = [...log.matchAll(/^Date: \S+ (\d\d:\d\d)/gm)].map(([, time]) => time);
const there = await Promise.all(times.map(time =>
  tools.time.convert_time({ source_timezone: "UTC", time, target_timezone: "Asia/Tokyo" })));
return Object.groupBy(there.map(({ target }) => target.datetime.slice(11, 16)), time => `${time.slice(0, 2)} h`);
