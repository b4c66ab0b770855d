interface Meeting { city: string; zone: string }
const meetings: Meeting[] = [
  { city: "Berlin", zone: "Europe/Berlin" },
  { city: "Tokyo", zone: "Asia/Tokyo" },
];

// These three calls run at the same time.
const [log, ...times] = await Promise.all([
  tools.git.git_log({ repo_path: input.repo, max_count: 3 }),
  ...meetings.map(({ zone }) =>
    tools.time.convert_time({ source_timezone: "UTC", time: "09:00", target_timezone: zone })),
]);

return {
  commits: (log as string).match(/^Message: .*$/gm),
  nine_in_utc: meetings.map(({ city }, n) => `${city}: ${times[n].target.datetime.slice(11, 16)}`),
};
