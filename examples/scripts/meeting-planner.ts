// Hours at which everybody is at work today, in the first person's time and in each one's own.
// input: {"people": {"Asha": "Asia/Kolkata", "Yuki": "Asia/Tokyo"}, "from": 9, "to": 17}

type Hour = Record<string, string>;

const people = Object.entries(input.people as Record<string, string>);
const from: number = input.from ?? 9;
const to: number = input.to ?? 17;
const [, home] = people[0];

const hours: Hour[] = await Promise.all(
  Array.from({length: to - from}, async (_, n): Promise<Hour> => {
    const time = `${String(from + n).padStart(2, "0")}:00`;
    const there = await Promise.all(people.map(([, zone]) =>
      tools.time.convert_time({source_timezone: home, time, target_timezone: zone})));
    return Object.fromEntries(people.map(([name], i) => [name, there[i].target.datetime.slice(11, 16)]));
  }));

// Zones may be half an hour apart, so that a meeting must both begin and end within the day.
const minutes = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
return hours.filter(hour => Object.values(hour).every(time =>
  minutes(time) >= from * 60 && minutes(time) + 60 <= to * 60));
