// Hours at which everybody is at work today, in the first person's time and in each one's own.
// input: {"people": {"Asha": "Asia/Kolkata", "Yuki": "Asia/Tokyo"}, "from": 9, "to": 17}

async ({ people, from = 9, to = 17 }: { people: Record<string, string>; from?: number; to?: number }) => {
  const [home] = Object.values(people);

  const hours = await Promise.all(
    Array.from({length: to - from}, async (_, n): Promise<Record<string, string>> => {
      const time = `${String(from + n).padStart(2, "0")}:00`;
      const there = Object.entries(people).map(async ([name, zone]) => {
        const converted = await tools.time.convert_time({source_timezone: home, time, target_timezone: zone});
        return [name, converted.target.datetime.slice(11, 16)];
      });
      return Object.fromEntries(await Promise.all(there));
    }));

  // Zones may be half an hour apart, so that a meeting must both begin and end within the day.
  const minutes = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
  return hours.filter(hour => Object.values(hour).every(time =>
    minutes(time) >= from * 60 && minutes(time) + 60 <= to * 60));
}
