// Numbers and dates as texts for people, in the words of https://tc39.es/ecma402/: English of the United
// States, in UTC. What would come out otherwise elsewhere is refused, rather than written wrongly.
(function (prelude) {
  'use strict';
  const { publish, hidden } = prelude;
  const { defineProperty } = Reflect;
  const ENGLISH = new Set(['en', 'en-US']);
  const REMEDY = 'only en-US in UTC can be written here; format it by hand, e.g. with toFixed() or toISOString()';
  const inspectable = (value) => typeof value === 'string' ? `'${value.slice(0, 50)}'` : String(value).slice(0, 50);

  /** The options, if they and the locale are those that can be honoured. */
  function honoured(method, locales, options, taken, known = ENGLISH) {
    for (const locale of locales === undefined ? [] : [locales].flat()) {
      if (!known.has(locale)) throw new RangeError(`${method} can't write ${inspectable(locale)}: ${REMEDY}`);
    }
    for (const name of Object.keys(options ?? {})) {
      if (options[name] !== undefined && !taken[name]?.(options[name])) throw new RangeError(`${method} can't do {${name}: ${inspectable(options[name])}}: ${REMEDY}${name === 'timeZone' ? '; a tool that knows time zones can convert it' : ''}`);
    }
    return options ?? {};
  }

  // ── https://tc39.es/ecma402/#sec-intl-numberformat-constructor ────────────────────────────────

  const grouped = (digits) => digits.replace(/\B(?=(?:\d{3})+$)/g, ',');

  /** A finite number's decimal digits, rounded half away from zero; `shift` places are moved before the point. */
  function decimal(number, least, most, shift) {
    const [, whole, part = '', power = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(Math.abs(number)));
    const point = whole.length + Number(power) + shift;
    const digits = '0'.repeat(Math.max(0, 1 - point)) + whole + part + '0'.repeat(Math.max(0, point - whole.length - part.length));
    const at = Math.max(point, 1), end = at + most;
    let kept = BigInt(digits.slice(0, end).padEnd(end, '0'));
    if (digits[end] >= '5') kept++;
    const all = String(kept).padStart(end, '0'), fraction = all.slice(all.length - most, most ? undefined : all.length - most);
    return [all.slice(0, all.length - most).replace(/^0+(?=\d)/, ''), fraction.replace(new RegExp(`(?<=^.{${least}}.*?)0+$`), '')];
  }

  // https://www.unicode.org/cldr/charts/latest/by_type/numbers.symbols.html, in English; others have their code
  const SYMBOLS = { USD: '$', EUR: '\u20ac', GBP: '\u00a3', JPY: '\u00a5', CNY: 'CN\u00a5', INR: '\u20b9', KRW: '\u20a9', CAD: 'CA$', AUD: 'A$', MXN: 'MX$', BRL: 'R$', NZD: 'NZ$', HKD: 'HK$', ILS: '\u20aa', TWD: 'NT$', PHP: '\u20b1' };
  for (const code of ['CHF', 'SEK', 'NOK', 'DKK', 'PLN', 'CZK', 'ZAR', 'SGD', 'TRY', 'THB', 'AED', 'SAR', 'MYR', 'ARS', 'RON', 'UAH']) SYMBOLS[code] = code + '\u00a0';
  const WHOLE = new Set(['JPY', 'KRW']);

  const places = (value) => Number.isInteger(value) && value >= 0 && value <= 100;
  const NUMBER = {
    minimumFractionDigits: places, maximumFractionDigits: places, useGrouping: (value) => typeof value === 'boolean',
    style: (value) => value === 'decimal' || value === 'percent' || value === 'currency',
    currency: (value) => Object.hasOwn(SYMBOLS, String(value).toUpperCase()), currencyDisplay: (value) => value === 'symbol',
    notation: (value) => value === 'standard' || value === 'compact', compactDisplay: (value) => value === 'short',
  };
  const SHORT = ['', 'K', 'M', 'B', 'T'];
  /** Digits and unit of the compact notation: two digits that count, or as many places as were asked for. */
  function compact(number, asked, size = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.abs(number) || 1) / 3)))) {
    const value = Math.abs(number) / 1000 ** size, own = value >= 10 || value === 0 ? 0 : value >= 1 ? 1 : 1 - Math.floor(Math.log10(value));
    const [least, most] = asked ?? [0, own];
    const [whole, part] = decimal(number, least, most, -3 * size);
    return whole.length > 3 && size < 4 ? compact(number, asked, size + 1) : [whole.length > 4 ? grouped(whole) : whole, part, SHORT[size]];
  }

  function numberText(method, number, locales, options) {
    const { minimumFractionDigits: min, maximumFractionDigits: max, useGrouping = true, style = 'decimal', currency, notation } = honoured(method, locales, options, NUMBER);
    if (min > max) throw new RangeError(method + ': minimumFractionDigits is more than maximumFractionDigits');
    if (style === 'currency' && currency === undefined) throw new TypeError(method + ': style currency needs a currency, e.g. USD');
    const code = style === 'currency' ? currency.toUpperCase() : '', own = code ? WHOLE.has(code) ? 0 : 2 : 0;
    const sign = number < 0 || Object.is(number, -0) ? '-' : '', before = code && SYMBOLS[code], after = style === 'percent' ? '%' : '';
    if (!Number.isFinite(number)) return Number.isNaN(number) ? before.trim() + 'NaN' + after : sign + before.trim() + '\u221e' + after;
    const least = min ?? Math.min(own, max ?? own), most = max ?? Math.max(style === 'decimal' ? 3 : own, least);
    if (notation === 'compact') {
      const [whole, part, unit] = compact(after ? number * 100 : number, min === undefined && max === undefined ? undefined : [least, most]);
      return sign + before + whole + (part && '.' + part) + unit + after;
    }
    const [whole, part] = decimal(number, least, most, after ? 2 : 0);
    return sign + before + (useGrouping ? grouped(whole) : whole) + (part && '.' + part) + after;
  }
  defineProperty(Number.prototype, 'toLocaleString', hidden(function toLocaleString(locales, options) {
    return numberText('toLocaleString', Number.prototype.valueOf.call(this), locales, options);
  }));
  defineProperty(BigInt.prototype, 'toLocaleString', hidden(function toLocaleString(locales, options) {
    honoured('toLocaleString', locales, options, {});
    const text = BigInt.prototype.toString.call(this);
    return text[0] === '-' ? '-' + grouped(text.slice(1)) : grouped(text);
  }));

  // ── https://tc39.es/ecma402/#sec-intl-datetimeformat-constructor ──────────────────────────────

  const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const one = (...words) => (value) => words.includes(value);
  const digits = one('numeric', '2-digit'), style = one('full', 'long', 'medium', 'short');
  const DATE = {
    weekday: one('long', 'short'), year: digits, month: one('numeric', '2-digit', 'long', 'short'), day: digits,
    hour: digits, minute: digits, second: digits, hour12: (value) => typeof value === 'boolean', hourCycle: one('h12', 'h23'),
    timeZone: one('UTC', 'GMT', 'Etc/UTC'), timeZoneName: one('short'), dateStyle: style, timeStyle: style,
  };
  const STYLES = {
    date: { full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }, long: { year: 'numeric', month: 'long', day: 'numeric' }, medium: { year: 'numeric', month: 'short', day: 'numeric' }, short: { year: '2-digit', month: 'numeric', day: 'numeric' } },
    time: { full: {}, long: { timeZoneName: 'short' }, medium: {}, short: {} },
  };
  // Locales that are asked for because of the form in which they write a day.
  const DAY_FORMS = { 'en-CA': (y, m, d) => `${y}-${m}-${d}`, 'sv-SE': (y, m, d) => `${y}-${m}-${d}`, 'en-GB': (y, m, d) => `${d}/${m}/${y}` };
  const WITH_DAYS = new Set([...ENGLISH, ...Object.keys(DAY_FORMS)]);

  const two = (value) => String(value).padStart(2, '0');
  const numeric = (value, form) => form === '2-digit' ? two(value % 100) : String(value);

  /** The date's part of the text; undefined for fields that no pattern of the language has together. */
  function dayText(date, { weekday, year, month, day }) {
    const y = year && numeric(date.getUTCFullYear(), year), d = day && numeric(date.getUTCDate(), day);
    const words = month === 'long' || month === 'short', name = MONTHS[date.getUTCMonth()];
    const m = month && (words ? month === 'long' ? name : name.slice(0, 3) : numeric(date.getUTCMonth() + 1, month));
    const e = weekday && (weekday === 'long' ? DAYS[date.getUTCDay()] : DAYS[date.getUTCDay()].slice(0, 3));
    if (e && !(m && d)) return m || d || y ? undefined : e;
    if (!m) return y && d ? undefined : y ?? d ?? '';
    const rest = words ? (d ? `${m} ${d}` : m) + (y ? (d ? ', ' : ' ') + y : '') : [m, d, y].filter(Boolean).join('/');
    return e ? `${e}, ${rest}` : rest;
  }

  function timeText(date, { hour, minute, second, hour12, hourCycle, timeZoneName }) {
    if (!hour) return minute || second || timeZoneName ? undefined : '';
    const full = date.getUTCHours(), halves = hour12 ?? hourCycle !== 'h23';
    if (!minute && (second || timeZoneName && !halves)) return undefined;
    // en-US counts to 24 where it is told hour12: false, and to 23 with h23
    const shown = halves ? numeric(full % 12 || 12, hour) : two(full === 0 && hour12 === false ? 24 : full);
    const clock = shown + (minute ? ':' + two(date.getUTCMinutes()) : '') + (second ? ':' + two(date.getUTCSeconds()) : '');
    return clock + (halves ? full < 12 ? ' AM' : ' PM' : '') + (timeZoneName ? ' UTC' : '');
  }

  const DEFAULTS = { date: { year: 'numeric', month: 'numeric', day: 'numeric' }, time: { hour: 'numeric', minute: '2-digit', second: '2-digit' } };
  const ASKED = { date: ['weekday', 'year', 'month', 'day'], time: ['hour', 'minute', 'second'] };

  /** What is to be written: the fields asked for, those of the styles, or those that `method` has by itself. */
  function fields(method, options, required, defaults) {
    const { dateStyle, timeStyle } = options, no = (name) => { throw new TypeError(`${method}: ${name} can't be asked for here`); };
    if (dateStyle || timeStyle) {
      for (const name of [...ASKED.date, ...ASKED.time, 'timeZoneName']) if (options[name] !== undefined) no(`${name} beside dateStyle and timeStyle`);
      if (dateStyle && required === 'time') no('dateStyle');
      if (timeStyle && required === 'date') no('timeStyle');
      const { second, ...short } = DEFAULTS.time;
      return { ...options, ...STYLES.date[dateStyle], ...timeStyle && { ...short, ...timeStyle !== 'short' && { second }, ...STYLES.time[timeStyle] } };
    }
    const groups = required === 'any' ? ['date', 'time'] : [required];
    if (groups.some((group) => ASKED[group].some((name) => options[name] !== undefined))) return options;
    return Object.assign({ ...options }, ...(defaults === 'all' ? ['date', 'time'] : [defaults]).map((group) => DEFAULTS[group]));
  }

  function dateText(method, date, locales, options, required, defaults) {
    const asked = honoured(method, locales, options, DATE, WITH_DAYS), locale = [locales].flat()[0];
    const wanted = fields(method, asked, required, defaults), invalid = Number.isNaN(Date.prototype.getTime.call(date));
    if (Object.hasOwn(DAY_FORMS, locale)) {
      const names = Object.keys(asked).filter((name) => name !== 'timeZone' && asked[name] !== undefined);
      const whole = names.length === 3 && asked.year === 'numeric' && asked.month === '2-digit' && asked.day === '2-digit';
      const timed = locale === 'sv-SE' && defaults === 'all' && !names.length;
      if (!whole && !timed && (defaults !== 'date' || names.length)) honoured(method, locales, {}, DATE);
      if (invalid) return 'Invalid Date';
      const day = DAY_FORMS[locale](date.getUTCFullYear(), two(date.getUTCMonth() + 1), two(date.getUTCDate()));
      return timed ? `${day} ${date.toISOString().slice(-13, -5)}` : day;
    }
    if (invalid) return 'Invalid Date';
    const day = dayText(date, wanted), time = timeText(date, wanted), zone = wanted.timeStyle === 'full' ? ' Coordinated Universal Time' : '';
    if (day === undefined || time === undefined || (wanted.weekday && time && !wanted.day)) throw new RangeError(`${method} can't write {${Object.keys(wanted).join(', ')}} together: ${REMEDY}`);
    return day + (day && time && (wanted.month === 'long' ? ' at ' : ', ')) + time + zone;
  }
  for (const [method, required, defaults] of [['toLocaleString', 'any', 'all'], ['toLocaleDateString', 'date', 'date'], ['toLocaleTimeString', 'time', 'time']]) {
    defineProperty(Date.prototype, method, hidden({ [method](locales, options) {
      return dateText(method, this, locales, options, required, defaults);
    } }[method]));
  }

  // ── plurals, lists and times from now: https://tc39.es/ecma402/#pluralrules-objects and what follows it ──

  const LONG = { style: one('long') };
  function plural(number, locales, options) {
    const { type } = honoured('PluralRules', locales, options, { type: one('cardinal', 'ordinal') });
    const n = Math.abs(Number(number)), ones = n % 10, tens = n % 100;
    if (type !== 'ordinal') return n === 1 ? 'one' : 'other';
    return ones === 1 && tens !== 11 ? 'one' : ones === 2 && tens !== 12 ? 'two' : ones === 3 && tens !== 13 ? 'few' : 'other';
  }
  function listText(list, locales, options) {
    const { type = 'conjunction' } = honoured('ListFormat', locales, options, { ...LONG, type: one('conjunction', 'disjunction', 'unit') });
    const items = [...list], last = items.length - 1, word = type === 'unit' ? '' : type === 'conjunction' ? ' and' : ' or';
    if (last < 1) return items.join('');
    return items.slice(0, last).join(', ') + (last > 1 || !word ? ',' : '') + word + ' ' + items[last];
  }
  const NEAR = { day: ['yesterday', 'today', 'tomorrow'], second: [undefined, 'now'] }, UNITS = one('second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year');
  for (const unit of ['week', 'month', 'quarter', 'year']) NEAR[unit] = [`last ${unit}`, `this ${unit}`, `next ${unit}`];
  for (const unit of ['hour', 'minute']) NEAR[unit] = [undefined, `this ${unit}`];
  function fromNow(value, locales, options, unit) {
    const { numeric: form } = honoured('RelativeTimeFormat', locales, options, { ...LONG, numeric: one('always', 'auto') });
    const named = String(unit).replace(/s$/, ''), number = Number(value), past = number < 0 || Object.is(number, -0);
    if (!UNITS(named) || !Number.isFinite(number)) throw new RangeError(`RelativeTimeFormat can't write ${inspectable(value)} of unit ${inspectable(unit)}`);
    const near = form === 'auto' ? NEAR[named][number + 1] : undefined;
    if (near !== undefined) return near;
    const count = `${numberText('RelativeTimeFormat', Math.abs(number))} ${named}${Math.abs(number) === 1 ? '' : 's'}`;
    return past ? `${count} ago` : `in ${count}`;
  }

  // ── https://tc39.es/ecma402/#intl-object: as far as the above goes ────────────────────────────

  const Intl = {};
  const LATIN = { numberingSystem: 'latn' };
  /** A class whose instances have one method. `probe` is what it can always do, but for what it can't honour. */
  const formatter = (name, method, probe, act, settled = {}) => {
    const made = { [name]: function (locales, options) {
      act(probe, locales, options, 'day');
      const self = new.target ? this : Object.create(made.prototype);
      defineProperty(self, method, hidden((value, more) => act(value, locales, options, more)));
      defineProperty(self, 'resolvedOptions', hidden(() => ({ locale: 'en-US', ...settled, ...options })));
      return self;
    } }[name];
    defineProperty(made, 'supportedLocalesOf', hidden((locales) => [locales ?? []].flat().filter((locale) => ENGLISH.has(locale))));
    defineProperty(Intl, name, hidden(made));
  };
  formatter('NumberFormat', 'format', 0, (value, locales, options) => typeof value === 'bigint' ? value.toLocaleString(locales, options) : numberText('NumberFormat', Number(value), locales, options), LATIN);
  formatter('DateTimeFormat', 'format', new Date(0), (value = Date.now(), locales, options) => {
    const date = new Date(value);
    if (Number.isNaN(date.getTime())) throw new RangeError('Invalid time value');
    return dateText('DateTimeFormat', date, locales, options, 'any', 'date');
  }, { ...LATIN, calendar: 'gregory', timeZone: 'UTC' });
  formatter('Collator', 'compare', '', (one, locales, options, other) => String(one).localeCompare(other, locales, options));
  formatter('PluralRules', 'select', 0, plural);
  formatter('ListFormat', 'format', [], listText);
  formatter('RelativeTimeFormat', 'format', 0, fromNow);
  defineProperty(Intl, Symbol.toStringTag, { value: 'Intl', configurable: true });
  publish('Intl', Intl);
})
