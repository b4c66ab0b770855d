// The standard helpers that need no I/O: WHATWG Encoding, URL and structuredClone, and Web Crypto's
// random numbers. Evaluated after the prelude, before any script. URLs are parsed by Ada in the host
// half of this process (`host.url`); the rest follows the specifications named at each part.
(function (prelude) {
  'use strict';
  const { publish, hidden, host, known } = prelude;
  const { parse, stringify } = JSON;
  const { apply, defineProperty, getPrototypeOf } = Reflect;
  const tag = (C, name) => defineProperty(C.prototype, Symbol.toStringTag, { value: name, configurable: true });
  const isError = Error.isError;

  // ── https://encoding.spec.whatwg.org/#interface-textencoder ───────────────────────────────────

  class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(input = '') {
      const s = String(input).toWellFormed();
      const ascii = new Uint8Array(s.length);
      let n = 0;
      for (; n < s.length; n++) { const c = s.charCodeAt(n); if (c > 127) break; ascii[n] = c; }
      if (n === s.length) return ascii;
      const out = new Uint8Array(n + (s.length - n) * 3);
      out.set(ascii.subarray(0, n));
      let at = n;
      for (; n < s.length; n++) {
        let c = s.charCodeAt(n);
        if (c < 0x80) { out[at++] = c; continue; }
        if (c < 0x800) { out[at++] = c >> 6 | 0xc0; out[at++] = c & 63 | 0x80; continue; }
        if (c >= 0xd800 && c < 0xdc00) {
          c = 0x10000 + ((c & 0x3ff) << 10) + (s.charCodeAt(++n) & 0x3ff);
          out[at++] = c >> 18 | 0xf0; out[at++] = c >> 12 & 63 | 0x80;
        } else {
          out[at++] = c >> 12 | 0xe0;
        }
        out[at++] = c >> 6 & 63 | 0x80;
        out[at++] = c & 63 | 0x80;
      }
      return out.slice(0, at);
    }
    encodeInto(source, destination) {
      let read = 0, written = 0;
      for (const character of String(source)) {
        const bytes = this.encode(character);
        if (written + bytes.length > destination.length) break;
        destination.set(bytes, written);
        read += character.length; written += bytes.length;
      }
      return { read, written };
    }
  }

  // ── https://encoding.spec.whatwg.org/#utf-8-decoder ───────────────────────────────────────────

  const LABELS = new Map();
  for (const [encoding, labels] of [
    ['utf-8', 'utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8'], ['utf-16le', 'utf-16le utf-16 ucs-2 unicode csunicode unicodefeff iso-10646-ucs-2'],
    ['windows-1252', 'windows-1252 latin1 ascii us-ascii iso-8859-1 iso8859-1 iso_8859-1 cp1252 l1 x-cp1252 cp819 ibm819 csisolatin1 iso-ir-100 iso88591 ansi_x3.4-1968'],
  ]) for (const label of labels.split(' ')) LABELS.set(label, encoding);
  // https://encoding.spec.whatwg.org/index-windows-1252.txt: the rest is what Unicode has in the same place
  const WINDOWS = '\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178';
  const windows = (bytes) => { let out = ''; for (const byte of bytes) out += byte >= 0x80 && byte < 0xa0 ? WINDOWS[byte - 0x80] : String.fromCharCode(byte); return out; };
  function utf16(bytes, fatal) {
    let out = '';
    for (let n = 0; n + 1 < bytes.length; n += 2) out += String.fromCharCode(bytes[n] | bytes[n + 1] << 8);
    if (bytes.length % 2) out += '\ud800';
    if (fatal && !out.isWellFormed()) throw new TypeError('TextDecoder: the bytes are not valid UTF-16');
    return out.toWellFormed();
  }
  class TextDecoder {
    #fatal; #ignoreBOM; #encoding; #held = [];
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      const encoding = LABELS.get(String(label).trim().toLowerCase());
      if (!encoding) throw new RangeError(`TextDecoder: only utf-8, utf-16le and windows-1252 (latin1) are available, not ${label}`);
      this.#encoding = encoding; this.#fatal = Boolean(fatal); this.#ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(input = new Uint8Array(0), { stream = false } = {}) {
      if (!ArrayBuffer.isView(input) && !(input instanceof ArrayBuffer || input instanceof SharedArrayBuffer)) throw new TypeError('TextDecoder: the bytes must be an ArrayBuffer or a view of one');
      const view = ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
      if (this.#encoding === 'windows-1252') return windows(view);
      if (this.#encoding === 'utf-16le') return this.#unmarked(utf16(view, this.#fatal));
      const bytes = this.#held.length ? Uint8Array.of(...this.#held, ...view) : view;
      this.#held = [];
      let out = '', units = [];
      const bad = () => { if (this.#fatal) throw new TypeError('TextDecoder: the bytes are not valid UTF-8'); units.push(0xfffd); };
      for (let n = 0; n < bytes.length;) {
        const first = bytes[n];
        if (first < 0x80) { units.push(first); n++; } else {
          const need = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
          let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80, high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
          let point = first & (0x3f >> need), seen = 0;
          while (seen < need && n + 1 + seen < bytes.length) {
            const next = bytes[n + 1 + seen];
            if (next < low || next > high) break;
            low = 0x80; high = 0xbf; point = point << 6 | next & 63; seen++;
          }
          if (need && seen < need && n + 1 + seen >= bytes.length && stream) { this.#held = [...bytes.subarray(n)]; break; }
          if (!need || seen < need) bad();
          else if (point > 0xffff) units.push(0xd800 + (point - 0x10000 >> 10), 0xdc00 + (point & 0x3ff));
          else units.push(point);
          n += 1 + seen;
        }
        if (units.length > 4096) { out += String.fromCharCode.apply(null, units); units = []; }
      }
      out += String.fromCharCode.apply(null, units);
      return this.#unmarked(out);
    }
    #unmarked(text) { return !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text; }
  }

  // ── https://url.spec.whatwg.org/#application/x-www-form-urlencoded ────────────────────────────

  const escapeForm = (text) => encodeURIComponent(text.toWellFormed()).replace(/[!'()~]|%20/g, (found) => found === '%20' ? '+' : '%' + found.charCodeAt(0).toString(16).toUpperCase());
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  function unescapeForm(text) {
    const plain = text.replace(/\+/g, ' ');
    if (!plain.includes('%')) return plain;
    const bytes = encoder.encode(plain), out = [];
    for (let n = 0; n < bytes.length; n++) {
      const hex = bytes[n] === 37 ? String.fromCharCode(bytes[n + 1], bytes[n + 2]) : '';
      if (/^[0-9a-f]{2}$/i.test(hex)) { out.push(parseInt(hex, 16)); n += 2; } else out.push(bytes[n]);
    }
    return decoder.decode(new Uint8Array(out));
  }

  const update = Symbol('update');
  class URLSearchParams {
    #pairs = []; #changed = () => {};
    constructor(init = '') {
      if (typeof init === 'object' && init !== null) {
        if (typeof init[Symbol.iterator] === 'function') {
          for (const pair of init) {
            const found = [...pair];
            if (found.length !== 2) throw new TypeError('URLSearchParams: each pair must have a name and a value');
            this.#pairs.push([String(found[0]), String(found[1])]);
          }
        } else for (const key of Object.keys(init)) this.#pairs.push([key, String(init[key])]);
      } else if (init !== null) this[update](String(init));
    }
    [update](query, changed) {
      if (changed) this.#changed = changed;
      this.#pairs = query.replace(/^\?/, '').split('&').filter(Boolean).map((part) => {
        const at = part.indexOf('=');
        return at < 0 ? [unescapeForm(part), ''] : [unescapeForm(part.slice(0, at)), unescapeForm(part.slice(at + 1))];
      });
    }
    get size() { return this.#pairs.length; }
    append(name, value) { this.#pairs.push([String(name), String(value)]); this.#changed(); }
    delete(name, value) { this.#pairs = this.#pairs.filter(([k, v]) => k !== String(name) || value !== undefined && v !== String(value)); this.#changed(); }
    get(name) { return this.#pairs.find(([k]) => k === String(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([k]) => k === String(name)).map(([, v]) => v); }
    has(name, value) { return this.#pairs.some(([k, v]) => k === String(name) && (value === undefined || v === String(value))); }
    set(name, value) {
      const first = this.#pairs.find(([k]) => k === String(name));
      if (!first) { this.append(name, value); return; }
      first[1] = String(value);
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== first[0]);
      this.#changed();
    }
    sort() { this.#pairs.sort(([x], [y]) => x < y ? -1 : x > y ? 1 : 0); this.#changed(); }
    forEach(callback, receiver) { for (const [k, v] of this.#pairs) callback.call(receiver, v, k, this); }
    *entries() { for (const [k, v] of this.#pairs) yield [k, v]; }
    *keys() { for (const [k] of this.#pairs) yield k; }
    *values() { for (const [, v] of this.#pairs) yield v; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([k, v]) => escapeForm(k) + '=' + escapeForm(v)).join('&'); }
  }

  // ── https://url.spec.whatwg.org/#url-class ────────────────────────────────────────────────────

  const PARTS = ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
  // https://webidl.spec.whatwg.org/#idl-USVString, which is also all that the host's end can take
  const toWellFormed = String.prototype.toWellFormed;
  const usv = (value) => apply(toWellFormed, String(value), []);
  const LONGEST = 2 ** 22;              // as in engine.py
  const found = (url, base) => host.url('parse', usv(url), base === undefined ? '' : usv(base), base !== undefined);
  const invalid = (text) => new TypeError('Invalid URL: ' + (text.length > LONGEST ? `it is longer than ${LONGEST} characters` : text.slice(0, 200)));
  function changed(part, href, value) {
    if (href.length + value.length > LONGEST) throw invalid(href + value);
    return host.url(part, href, value, true);
  }

  class URL {
    #parts; #params;
    constructor(url, base) {
      const text = String(url), parts = found(text, base);
      if (!parts) throw invalid(text);
      this.#parts = parse(parts);
    }
    static canParse(url, base) { return Boolean(found(url, base)); }
    static parse(url, base) { try { return new URL(url, base); } catch { return null; } }
    static [update](url, part, value) {
      const found = changed(part, url.#parts.href, usv(value));
      if (found) url.#parts = parse(found);
      else if (part === 'href') throw invalid(String(value));
      if (url.#params && part !== 'params') url.#params[update](url.#parts.search);
    }
    static part(url, name) { return url.#parts[name]; }
    get href() { return this.#parts.href; }
    set href(value) { URL[update](this, 'href', value); }
    get origin() { return this.#parts.origin; }
    get searchParams() {
      if (!this.#params) {
        this.#params = new URLSearchParams();
        this.#params[update](this.#parts.search, () => {
          const found = changed('search', this.#parts.href, this.#params.toString());
          if (found) this.#parts = parse(found);
        });
      }
      return this.#params;
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  const { part } = URL;
  delete URL.part;
  for (const name of PARTS) {
    defineProperty(URL.prototype, name, {
      get() { return part(this, name); }, set(value) { URL[update](this, name, value); }, enumerable: true, configurable: true,
    });
  }
  for (const name of ['href', 'origin', 'searchParams']) defineProperty(URL.prototype, name, { ...Object.getOwnPropertyDescriptor(URL.prototype, name), enumerable: true });

  // ── https://html.spec.whatwg.org/#structuredserializeinternal ─────────────────────────────────

  const ERRORS = new Map([Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((C) => [C.prototype.constructor.name, C]));
  const TypedArray = getPrototypeOf(Uint8Array);
  function structuredClone(value, options) {
    if (!arguments.length) throw new TypeError('structuredClone needs a value');
    const seen = new Map();
    const never = (what) => { throw new DOMException(`${what} could not be cloned`, 'DataCloneError'); };
    const keep = (from, to) => { seen.set(from, to); return to; };
    for (const from of options?.transfer ?? []) {
      if (!(from instanceof ArrayBuffer)) never('what is to be transferred and no ArrayBuffer');
      keep(from, from.transfer());
    }
    function buffer(from) { return seen.get(from) ?? keep(from, from.slice(0)); }
    function clone(from) {
      if (typeof from === 'symbol') never(String(from));
      if (typeof from === 'function') never(`function ${from.name}`);
      if (typeof from !== 'object' || from === null) return from;
      if (seen.has(from)) return seen.get(from);
      if (from instanceof Date) return keep(from, new Date(+from));
      if (from instanceof RegExp) return keep(from, new RegExp(from.source, from.flags));
      if (from instanceof Boolean || from instanceof Number || from instanceof String || from instanceof BigInt) return keep(from, Object(from.valueOf()));
      if (from instanceof ArrayBuffer) return buffer(from);
      if (from instanceof DataView) return keep(from, new DataView(buffer(from.buffer), from.byteOffset, from.byteLength));
      if (from instanceof TypedArray) return keep(from, new from.constructor(buffer(from.buffer), from.byteOffset, from.length));
      if (from instanceof Map) { const to = keep(from, new Map()); for (const [k, v] of [...from]) to.set(clone(k), clone(v)); return to; }
      if (from instanceof Set) { const to = keep(from, new Set()); for (const v of [...from]) to.add(clone(v)); return to; }
      if (isError(from)) {
        const made = keep(from, new (ERRORS.get(from.name) ?? Error)(String(from.message)));
        if (Object.hasOwn(from, 'cause')) defineProperty(made, 'cause', hidden(clone(from.cause)));
        defineProperty(made, 'stack', hidden(from.stack));
        return made;
      }
      if (from instanceof Promise) never('a Promise');
      if (from instanceof WeakMap || from instanceof WeakSet || from instanceof WeakRef) never('a weak collection');
      const to = keep(from, Array.isArray(from) ? new Array(from.length) : {});
      for (const key of Object.keys(from)) defineProperty(to, key, { value: clone(from[key]), writable: true, enumerable: true, configurable: true });
      return to;
    }
    return clone(value);
  }

  // ── https://w3c.github.io/webcrypto/#Crypto-interface (random numbers only) ───────────────────

  const bytes = (count) => host.random(count);          // hexadecimal
  const crypto = {
    randomUUID() {
      const hex = bytes(16);
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${'89ab'[parseInt(hex[16], 16) & 3]}${hex.slice(17, 20)}-${hex.slice(20)}`;
    },
    getRandomValues(array) {
      if (!(array instanceof TypedArray) || array instanceof Float32Array || array instanceof Float64Array) throw new DOMException('getRandomValues needs an integer typed array', 'TypeMismatchError');
      if (array.byteLength > 65536) throw new DOMException('getRandomValues gives at most 65536 bytes at once', 'QuotaExceededError');
      const view = new Uint8Array(array.buffer, array.byteOffset, array.byteLength), hex = bytes(view.length);
      for (let n = 0; n < view.length; n++) view[n] = parseInt(hex.slice(2 * n, 2 * n + 2), 16);
      return array;
    },
  };

  // ── https://www.unicode.org/reports/tr10/, without its tables: signs, digits, letters; then accents; then case ──

  const LETTER = /\p{L}/u, DIGIT = /\p{N}/u, MARKS = /\p{M}+/gu, DIGITS = /\d+/y;
  const ranks = new Uint32Array(0x3000);
  const rank = (code) => { const found = String.fromCharCode(code); return code + (LETTER.test(found) ? 0x20000 : DIGIT.test(found) ? 0x10000 : 0) + 1; };
  const ranked = (code) => code < 0x3000 ? ranks[code] ||= rank(code) : rank(code);
  const ascii = Array.from({ length: 128 }, (_, code) => ranked(String.fromCharCode(code).toLowerCase().charCodeAt(0)));
  const base = (text) => /[^\x00-\x7f]/.test(text) ? text.normalize('NFD').replace(MARKS, '').toLowerCase() : text.toLowerCase();
  const run = (text, at) => { DIGITS.lastIndex = at; return DIGITS.exec(text)?.[0] ?? ''; };
  function collate(x, y, numeric) {
    let n = 0, m = 0;
    while (n < x.length && m < y.length) {
      const a = numeric ? run(x, n) : '', b = a && run(y, m);
      if (b) {
        const by = BigInt(a) - BigInt(b);
        if (by) return by < 0n ? -1 : 1;
        n += a.length; m += b.length;
        continue;
      }
      const by = ranked(x.charCodeAt(n++)) - ranked(y.charCodeAt(m++));
      if (by) return by < 0 ? -1 : 1;
    }
    return Math.sign(x.length - n - (y.length - m));
  }
  defineProperty(String.prototype, 'localeCompare', hidden(function localeCompare(that, locales, { numeric = false, sensitivity = 'variant' } = {}) {
    const x = String(this), y = String(that);
    if (x === y) return 0;
    if (!numeric) {                    // most are told apart by their first difference
      let n = 0, left, right;
      while ((left = x.charCodeAt(n)) === (right = y.charCodeAt(n))) n++;
      const by = left < 128 && right < 128 ? ascii[left] - ascii[right] : 0;
      if (by) return by < 0 ? -1 : 1;
    }
    const by = collate(base(x), base(y), numeric);
    if (by || sensitivity === 'base') return by;
    const a = x.normalize('NFD'), b = y.normalize('NFD');
    if (sensitivity !== 'case' && a.toLowerCase() !== b.toLowerCase()) return a.toLowerCase() < b.toLowerCase() ? -1 : 1;
    if (sensitivity === 'accent') return 0;
    for (let n = 0; n < a.length; n++) if (a[n] !== b[n]) return a[n] === a[n].toLowerCase() ? -1 : 1;
    return 0;
  }));

  for (const C of [TextEncoder, TextDecoder, URLSearchParams, URL]) { tag(C, C.name); publish(C.name, C); }
  known('URLSearchParams', URLSearchParams.prototype);
  publish('structuredClone', structuredClone);
  publish('crypto', crypto);
})
