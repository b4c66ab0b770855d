// What a script finds in its world, and the two ends of its line to the host.
//
// Evaluated once, before any script; `host` is the only door out and goes out of reach when this
// returns. A script may overwrite any global or prototype: nothing below may lean on one at run
// time. Hence the captured intrinsics, the null-prototype tables and the absence of spread,
// destructuring and array methods in code that runs after the script has begun.
(function (host) {
  'use strict';
  const G = globalThis;
  const {
    apply, getPrototypeOf, setPrototypeOf, defineProperty,
  } = Reflect;
  const { keys, create, getOwnPropertyDescriptor, prototype: Object_prototype } = Object;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const isError = Error.isError;
  const evaluate = G.eval;
  const P = Promise, then = Promise.prototype.then;
  const E = Error, TE = TypeError, SE = SyntaxError, S = String;
  const hasOwn = (object, key) => apply(Object_hasOwn, null, [object, key]);
  const Object_hasOwn = Object.hasOwn;
  const isWellFormed = S.prototype.isWellFormed, toWellFormed = S.prototype.toWellFormed;
  const slice = S.prototype.slice, indexOf = S.prototype.indexOf;
  const test = RegExp.prototype.exec;
  const isInteger = Number.isInteger, isFinite = Number.isFinite;
  const toISOString = Date.prototype.toISOString, getTime = Date.prototype.getTime;
  const Weak = WeakMap, weakGet = WeakMap.prototype.get, weakSet = WeakMap.prototype.set;
  const InternalErrorPrototype = G.InternalError?.prototype;
  const hidden = (value) => ({ value, writable: true, enumerable: false, configurable: true, __proto__: null });
  const shown = (value) => ({ value, writable: true, enumerable: true, configurable: true, __proto__: null });

  const text = (value) => apply(isWellFormed, value, []) ? value : apply(toWellFormed, value, []);
  const quote = (value) => stringify(text(value));

  // An engine failure carries this constructor; a script must not be able to make one of its own.
  delete G.InternalError;
  if (InternalErrorPrototype) defineProperty(InternalErrorPrototype, 'constructor', hidden(E));

  // ── reading values ────────────────────────────────────────────────────────────────────────────

  const DEPTH = 100;
  const BUILTIN = new Weak();
  const REMEDY = {
    __proto__: null,
    Date: 'return .toISOString()', RegExp: 'return .toString()', Map: 'return Object.fromEntries(map) or [...map]',
    Set: 'return [...set]', Error: 'return .message', Promise: 'await it first',
    ArrayBuffer: 'return Array.from(new Uint8Array(buffer))', DataView: 'return the numbers you need',
    WeakMap: 'return a plain object', WeakSet: 'return a plain array', WeakRef: 'return .deref()',
    Iterator: 'return [...iterator]', AsyncIterator: 'collect it into an array first',
    'group of tools': 'Object.keys() of it gives their names; they are called as await tools.<server>.<tool>({...})',
    URL: 'return .href', URLSearchParams: 'return .toString()',
  };
  const known = (name, prototype) => prototype && apply(weakSet, BUILTIN, [prototype, name]);
  for (const name of ['Date', 'RegExp', 'Map', 'Set', 'Error', 'Promise', 'ArrayBuffer', 'SharedArrayBuffer', 'DataView',
    'WeakMap', 'WeakSet', 'WeakRef', 'Iterator', 'Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array',
    'Int32Array', 'Uint32Array', 'BigInt64Array', 'BigUint64Array', 'Float16Array', 'Float32Array', 'Float64Array']) {
    known(name, G[name]?.prototype);
  }
  known('AsyncIterator', getPrototypeOf(getPrototypeOf(async function* () {}.prototype)));

  function builtin(value) {
    let at = value;
    for (let n = 0; n < DEPTH && (at = getPrototypeOf(at)) !== null && at !== Object_prototype; n++) {
      const name = apply(weakGet, BUILTIN, [at]);
      if (name !== undefined) return name;
    }
    return undefined;
  }

  const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
  const begun = (name) => name.length > 100 ? apply(slice, name, [0, 100]) + '…' : name;
  const step = (path, key) => path + (typeof key === 'number' ? '[' + key + ']'
    : apply(test, IDENTIFIER, [key = begun(key)]) ? '.' + key : '[' + quote(key) + ']');

  class Unwritable extends E {}
  defineProperty(Unwritable.prototype, 'name', hidden('Unwritable'));
  const an = (what) => (apply(test, /^[AEIO]/, [what]) ? 'an ' : 'a ') + what;
  const unwritable = (thrown) => isError(thrown) && getPrototypeOf(thrown) === Unwritable.prototype;
  let unread = '';                    // the place of what threw as it was read: a getter may
  const where = (at, level) => {
    let path = at.root;
    for (let n = 0; n < level; n++) path = step(path, at.keys[n]);
    return path;
  };
  const refuse = (at, level, what, remedy) => { throw new Unwritable(where(at, level) + ' is ' + what + (remedy ? ': ' + remedy : '')); };

  /**
   * The JSON text of a value. Each property is read once; the first that can't be written is named by its path.
   * Undefined for a value whose `toJSON` says that it is to be left out.
   * `at.keys` lead to where it is read, the first `level` of them to `value`, whose `depth` is what holds it in `at.above`.
   */
  function write(value, key, depth, level, at) {
    switch (typeof value) {
      case 'string': return quote(value);
      case 'boolean': return value ? 'true' : 'false';
      case 'number':
        if (isFinite(value)) return value === 0 ? '0' : '' + value;
        return refuse(at, level, '' + value, 'JSON has no such number; return null or a string' + (value !== value ? '. NaN comes of arithmetic with undefined, an object, or text that is no number: log what the tool gave' : ''));
      case 'bigint': return refuse(at, level, 'a BigInt', 'return Number(x) or .toString()');
      case 'symbol': return refuse(at, level, 'a symbol', 'return its .description');
      case 'function': return refuse(at, level, 'a function', 'return its result, or leave it out');
      case 'undefined': return refuse(at, level, 'undefined', 'return null, or leave it out');
    }
    if (value === null) return 'null';
    const above = at.above;
    for (let n = 0; n < depth; n++) if (above[n] === value) refuse(at, level, 'a circular reference', 'return a plain tree, without references to what contains it');
    if (depth >= DEPTH) refuse(at, level, 'nested deeper than ' + DEPTH + ' levels', 'return a flatter value');
    at.level = level;
    if (isArray(value)) {
      above[depth] = value;
      const length = value.length;
      let out = '[';
      for (let n = 0; n < length; n++) {
        at.keys[level] = n;
        at.level = level + 1;
        const item = value[n];
        if (item === undefined && !hasOwn(value, n)) refuse(at, level + 1, 'a hole in a sparse array', 'fill it with null');
        out += (n ? ',' : '') + (write(item, '' + n, depth + 1, level + 1, at) ?? write(undefined, '', 0, level + 1, at));
      }
      above[depth] = undefined;
      return out + ']';
    }
    const kind = builtin(value);
    if (kind !== undefined) {
      if (at.dates && kind === 'Date') return quote(apply(toISOString, value, []));
      const listed = kind === 'Promise' && level > 0 && typeof at.keys[level - 1] === 'number';
      return refuse(at, level, an(kind), listed ? 'await Promise.all(...) of the array first' : REMEDY[kind] ?? 'return Array.from(x)');
    }
    const toJSON = value.toJSON;
    if (typeof toJSON === 'function') {
      const own = apply(toJSON, value, [key]);
      if (own === undefined) return undefined;
      above[depth] = value;
      const out = write(own, key, depth + 1, level, at);
      above[depth] = undefined;
      return out;
    }
    const boxed = unboxed(value);
    if (boxed !== value) return write(boxed, key, depth, level, at);
    above[depth] = value;
    const names = keys(value);
    let out = '{', first = true;
    for (let n = 0; n < names.length; n++) {
      const name = at.keys[level] = names[n];
      at.level = level + 1;
      const item = value[name];
      const written = item === undefined ? undefined : write(item, name, depth + 1, level + 1, at);
      if (written === undefined) continue;
      out += (first ? '' : ',') + quote(name) + ':' + written;
      first = false;
    }
    above[depth] = undefined;
    return out + '}';
  }

  const UNBOX = new Weak();
  for (const { prototype } of [Number, S, Boolean, BigInt, Symbol]) apply(weakSet, UNBOX, [prototype, prototype.valueOf]);

  /** The primitive in a `new Number(1)` or the like. Only what descends from these is asked: each "no" is an error that is made for it. */
  function unboxed(value) {
    let at = value;
    for (let n = 0; n < DEPTH && (at = getPrototypeOf(at)) !== null && at !== Object_prototype; n++) {
      const valueOf = apply(weakGet, UNBOX, [at]);
      if (valueOf !== undefined) try { return apply(valueOf, value, []); } catch { break; }
    }
    return value;
  }

  const toText = (value, root, dates) => {
    const at = { __proto__: null, root, dates, keys: create(null), level: 0, above: create(null) };
    try {
      return write(value, '', 0, 0, at) ?? write(undefined, '', 0, 0, at);
    } catch (thrown) {
      unread = where(at, at.level);
      throw thrown;
    }
  };

  /** For people: what a console line or an error message shows of any value. Never throws. */
  function inspect(value, depth, room) {
    try {
      switch (typeof value) {
        case 'string': return depth ? quote(value) : text(value);
        case 'number': return value === 0 && 1 / value < 0 ? '-0' : '' + value;
        case 'boolean': case 'undefined': return '' + value;
        case 'bigint': return value + 'n';
        case 'symbol': return apply(symbolText, value, []);
        case 'function': return '[function ' + (ownText(value, 'name') || 'anonymous') + ']';
      }
      if (value === null) return 'null';
      if (isError(value)) { const found = told(value); return depth ? '[' + found.message + ']' : found.message + placed(found.stack); }
      if (depth > 5 || room < 0) return isArray(value) ? '[…]' : '{…}';
      const kind = builtin(value);
      if (kind === 'Date') return apply(getTime, value, []) === apply(getTime, value, []) ? apply(toISOString, value, []) : 'Invalid Date';
      if (kind === 'RegExp') return apply(regexpText, value, []);
      if (kind === 'Promise') return 'Promise { await it to see its value }';
      if (kind === 'Map') return 'Map ' + inspect(Array_from(value), depth + 1, room);
      if (kind === 'Set') return 'Set ' + inspect(Array_from(value), depth + 1, room);
      const listed = isArray(value) || isView(value) && kind !== 'DataView', names = listed ? value : keys(value);
      let out = '';
      for (let n = 0; n < names.length; n++) {
        if (n === 100 || out.length > room) { out += ', … ' + (names.length - n) + ' more'; break; }
        const item = listed ? value[n] : value[names[n]];
        out += (n ? ', ' : '') + (listed ? '' : (apply(test, IDENTIFIER, [names[n]]) ? names[n] : quote(names[n])) + ': ') + inspect(item, depth + 1, room - out.length);
      }
      return listed ? (kind ? kind + ' ' : '') + '[' + out + ']' : (kind ? kind + ' ' : '') + '{' + out + '}';
    } catch {
      return '[a value that throws when it is looked at]';
    }
  }
  const symbolText = Symbol.prototype.toString, regexpText = RegExp.prototype.toString;
  const Array_from = Array.from, isView = ArrayBuffer.isView;

  function ownText(value, key) {
    try {
      const found = value[key];
      return typeof found === 'string' ? found : found === undefined ? '' : inspect(found, 1, 1000);
    } catch {
      return '';
    }
  }

  // A frame of ours (see FIRST_LINE in engine.py); of a built-in; of a text that did not parse.
  const OURS = /<input>:2\d{6}:/, NATIVE = /^ *at .+ \(native\)$/, EVAL = /^ *at eval \(native\)$/, UNPARSED = /^ *at <input>:\d+:\d+$/, TOP = /^ *at <eval> /;

  /**
   * The script's own frames: those between ours, which come first (we threw) and last (we called).
   * What lies above an `eval` of the script has places in another text, and so has what JSON.parse says of its own.
   */
  function theirs(stack) {
    let out = '', held = '', evaluated = '', unparsed = '', inner = false, at = 0;
    while (at < stack.length) {
      let end = apply(indexOf, stack, ['\n', at]);
      if (end < 0) end = stack.length;
      const line = apply(slice, stack, [at, end]);
      at = end + 1;
      if (apply(test, UNPARSED, [line]) !== null) { unparsed = line + '\n'; continue; }
      if (apply(test, OURS, [line]) !== null) {
        if (out !== '' || evaluated !== '') break;
        held = '';
      } else if (apply(test, EVAL, [line]) !== null) {
        evaluated = out === '' ? unparsed : out;
        out = held = '';
        inner = false;
      } else if (apply(test, NATIVE, [line]) !== null) {
        held += line + '\n';
      } else {
        out = (inner ? '' : out + held) + line + '\n';
        held = '';
        inner = apply(test, TOP, [line]) !== null;
      }
      unparsed = '';
    }
    return out === '' ? evaluated : out;
  }

  // `stack` is an accessor of Error.prototype, so a stack is put in the caller's terms when somebody reads it.
  const { get: engineStack } = getOwnPropertyDescriptor(E.prototype, 'stack');
  const captured = new Weak();        // object -> stack of the engine, where it isn't the one of its making
  const FRAME = /^ *at ([^ (]+) \(/;

  /** The script's frames of an error, without those of its own class's constructors, as V8 has it. */
  function frames(thrown) {
    const stack = apply(weakGet, captured, [thrown]) ?? apply(engineStack, thrown, []);
    if (typeof stack !== 'string') return stack;
    const classes = create(null);
    for (let at = getPrototypeOf(thrown), n = 0; at !== null && n < DEPTH && apply(weakGet, BUILTIN, [at]) !== 'Error'; at = getPrototypeOf(at), n++) {
      classes[ownText(getOwnPropertyDescriptor(at, 'constructor')?.value, 'name')] = true;
    }
    let found = theirs(stack), match;
    while ((match = apply(test, FRAME, [found])) !== null && classes[match[1]]) {
      const rest = apply(slice, found, [apply(indexOf, found, ['\n']) + 1]);
      if (rest === '') break;
      found = rest;
    }
    return found;
  }

  const placed = (stack) => stack === '' ? '' : '\n' + apply(trimEnd, host.place(S(text(stack))) ?? '', []);
  const trimEnd = S.prototype.trimEnd;
  const headline = (error) => { const name = ownText(error, 'name') || 'Error', said = ownText(error, 'message'); return said ? name + ': ' + said : name; };
  const stackAccess = {
    get stack() { const found = frames(this); return typeof found === 'string' ? headline(this) + placed(found) : found; },
    set stack(value) { defineProperty(this, 'stack', hidden(value)); },
  };
  const lazyStack = (object) => defineProperty(object, 'stack', { __proto__: null, ...getOwnPropertyDescriptor(stackAccess, 'stack'), enumerable: false });
  lazyStack(E.prototype);
  const capture = E.captureStackTrace;
  defineProperty(E, 'captureStackTrace', hidden(function captureStackTrace(object, above) {
    const at = {};
    capture(at, typeof above === 'function' ? above : captureStackTrace);
    apply(weakSet, captured, [object, at.stack]);
    if (!isError(object)) lazyStack(object);
  }));

  const LONGEST = 16384;
  const short = (value) => value.length > LONGEST ? apply(slice, value, [0, LONGEST]) + ' … (' + value.length + ' characters)' : value;

  /** Name, message and stack of whatever was thrown, however it resists. */
  function told(thrown, level = 0) {
    let genuine = false;
    try { genuine = isError(thrown) || builtin(thrown) === 'Error'; } catch { /* a proxy, or no object */ }
    if (!genuine) return { __proto__: null, name: '', message: short('Uncaught ' + (thrown === '' ? '"" (an empty string)' : inspect(thrown, 0, 4000))), stack: '', memory: false, syntax: false };
    const name = short(ownText(thrown, 'name')) || 'Error', said = short(ownText(thrown, 'message'));
    let stack = '', prototype = null;
    try { stack = isError(thrown) && !hasOwn(thrown, 'stack') ? frames(thrown) : theirs(ownText(thrown, 'stack')); } catch { /* a proxy */ }
    try { prototype = getPrototypeOf(thrown); } catch { /* a proxy */ }
    let message = said ? name + ': ' + said : name;
    const tool = apply(weakGet, failures, [thrown]);
    if (tool !== undefined) message += ' (' + tool + ')';
    if (level < 3) message += reasons(thrown, level + 1);
    return {
      __proto__: null, name, message: text(message), stack: text(short(typeof stack === 'string' ? stack : '')),
      memory: prototype === InternalErrorPrototype && said === 'out of memory', syntax: prototype === SE.prototype,
    };
  }

  /** What an error says of why: its cause, and the errors that it stands for. */
  function reasons(thrown, level) {
    let out = '';
    const reason = (value) => isError(value) ? told(value, level).message : inspect(value, 1, 500);
    try {
      if (hasOwn(thrown, 'cause')) out += ' (cause: ' + reason(thrown.cause) + ')';
      const errors = hasOwn(thrown, 'errors') ? thrown.errors : undefined;
      if (isArray(errors)) {
        let list = '';
        for (let n = 0; n < errors.length && n < 5; n++) list += (n ? '; ' : '') + reason(errors[n]);
        out += ' (errors: ' + list + (errors.length > 5 ? '; and ' + (errors.length - 5) + ' more' : '') + ')';
      }
    } catch { /* a getter that throws */ }
    return short(out);
  }

  // ── calling tools ─────────────────────────────────────────────────────────────────────────────

  let number = 0;
  const waiting = create(null);       // number -> {resolve, reject, server, tool, call, site, heard}
  let inFlight = 0;
  const refused = new Weak();         // the host's own envelopes that end a run when they are its value
  const failures = new Weak();        // ToolError -> "CODE from server:tool"
  const FINAL = { __proto__: null, INVALID_ARGS: true, MAX_TOOL_CALLS_EXCEEDED: true, SERVER_NOT_ALLOWED: true };

  // S() makes one flat string of a concatenation: the host's end takes no ropes.
  // What is too long for one frame isn't sent: `send` gives false then, and `ask` undefined.
  const send = (frame) => host.send(S(frame));
  const ask = (id, frame) => { const answer = host.ask(S(frame), id); return answer === '' ? undefined : parse(answer); };
  const TOO_LONG = 'this is more than the 8 MiB, or the 100,000 values, that can be sent at once: send less, or in parts';

  function failed(code, message) {
    return enveloped({ ok: false, error: { code, message, retryable: false } });
  }
  let lastFailure;                    // of a call that gives an envelope: a script may have taken it for a result
  let noBatch;                        // why the last call_tools gave no array

  /** Remember the refusals that are ours, and let the data of a result be read directly. */
  function enveloped(envelope) {
    if (!envelope.ok) {
      const { code, message } = envelope.error;
      lastFailure = code + ': ' + message;
      defineProperty(envelope.error, 'toString', hidden(() => code + ': ' + message));
      if (FINAL[envelope.error.code]) apply(weakSet, refused, [envelope, { __proto__: null, code: envelope.error.code, message: envelope.error.message }]);
    } else {
      lastFailure = undefined;
      lend(envelope, envelope.result);
    }
    return envelope;
  }

  /** Let what a result has be read from its envelope as well, and what its data has from both. */
  function lend(envelope, result) {
    const data = dataOf(result);
    let lent = create(Object_prototype);
    if (isArray(data) && data !== result.content) setPrototypeOf(result, lent = data);
    else if (typeof data === 'object' && data !== null && data !== result.content) {
      const names = keys(data);
      for (let n = 0; n < names.length; n++) defineProperty(lent, names[n], hidden(data[names[n]]));
      setPrototypeOf(result, lent);
    }
    const also = create(lent);
    for (let n = 0; n < WIRE.length; n++) if (hasOwn(result, WIRE[n])) defineProperty(also, WIRE[n], hidden(result[WIRE[n]]));
    if (also.error !== undefined) defineProperty(also, 'error', hidden(undefined));      // the call has none
    setPrototypeOf(envelope, also);
  }
  const WIRE = ['content', 'structuredContent', 'isError'];

  /** What a tool means by its result: structured content, else JSON text, else the text, else the blocks. */
  function dataOf(result) {
    if (hasOwn(result, 'structuredContent')) return result.structuredContent;
    const content = hasOwn(result, 'content') ? result.content : undefined;
    if (!isArray(content) || content.length !== 1 || content[0]?.type !== 'text' || typeof content[0].text !== 'string') return content;
    try { return parse(content[0].text); } catch { return content[0].text; }
  }

  const gave = create(null);          // "server:tool" -> what it gave first, in a few words
  let shapes = 0;

  function shapeOf(data) {
    if (typeof data === 'string') return data.length > 40 ? 'a text that begins ' + quote(apply(slice, data, [0, 40])) : 'the text ' + quote(data);
    if (typeof data !== 'object' || data === null) return '' + data;
    if (isArray(data)) return data.length ? 'an array of ' + data.length + ', the first of which is ' + (isArray(data[0]) ? 'an array' : shapeOf(data[0])) : 'an empty array';
    const names = keys(data);
    let out = names.length ? '' : ' without members';
    for (let n = 0; n < names.length && n < 12; n++) out += (n ? ', ' : ' with ') + apply(slice, names[n], [0, 30]);
    return 'an object' + out + (names.length > 12 ? ', …' : '');
  }

  /** Data whose `content` is the wire's where it has none: clients of MCP read content[0].text, and so do programs. */
  function received(entry, data, result) {
    const key = entry.server + ':' + entry.tool;
    if (shapes < 50 && gave[key] === undefined) { gave[key] = text(shapeOf(data)); shapes++; }
    if (typeof data === 'object' && data !== null && !hasOwn(data, 'content') && hasOwn(result, 'content')) defineProperty(data, 'content', hidden(result.content));
    return data;
  }

  const plain = (value) => typeof value === 'object' && value !== null && !isArray(value) && builtin(value) === undefined;

  /** JSON text of the arguments, or a sentence that says what is wrong with them (in an object). */
  function argsText(args, label) {
    unread = label;
    try {
      if (!plain(args)) return { wrong: label + ' must be a plain object such as {key: value}, not ' + kindOf(args) + (typeof args === 'string' && args[0] === '{' ? ': leave out JSON.stringify' : '') };
      const text = toText(args, label, true);
      return text[0] === '{' ? text : { wrong: label + ' must be a plain object such as {key: value}: as JSON this is ' + short(text) };
    } catch (error) {
      return { wrong: unwritable(error) ? passed(error.message) : unread + ' could not be read: ' + told(error).message };
    }
  }
  /** The sentence about a result, about arguments: what is returned there is passed here. */
  function passed(message) {
    const at = apply(lastIndexOf, message, [' return ']);
    return at < 0 ? message : apply(slice, message, [0, at]) + ' pass ' + apply(slice, message, [at + 8]);
  }
  const { lastIndexOf } = S.prototype;

  function kindOf(value) {
    if (value === null) return 'null';
    if (value === '') return 'an empty string';
    if (isArray(value)) return 'an array';
    if (typeof value !== 'object') return typeof value === 'undefined' ? 'undefined' : 'a ' + typeof value;
    let kind; try { kind = builtin(value); } catch { /* a proxy */ }
    return kind ? an(kind) : 'an object';
  }

  const named = (value) => typeof value === 'string' && value !== '';

  /** The call that one with too few arguments was meant as: "server:tool", a tool alone and an object with all three are seen most. */
  function spelled(server, tool) {
    if (typeof tool === 'object' && named(server) && apply(indexOf, server, [':']) < 0) return spelled(undefined, server);
    if (plain(server)) return spelled(server.server ?? server.server_name ?? server.tool ?? server.name, server.tool ?? server.tool_name ?? server.name ?? {});
    const at = typeof server === 'string' ? apply(indexOf, server, [':']) : -1;
    if (at > 0) return 'call_tool(' + quote(begun(apply(slice, server, [0, at]))) + ', ' + quote(begun(apply(slice, server, [at + 1]))) + ', args)';
    return 'call_tool(' + (named(server) ? quote(begun(server)) : 'server') + ', ' + (named(tool) ? quote(begun(tool)) : 'tool') + ', args)';
  }

  const asked = (server, tool) => { try { return spelled(server, tool); } catch { return 'call_tool(server, tool, args)'; } };

  function call_tool(server, tool, args) {
    if (arguments.length < 3) return failed('INVALID_ARGS', 'call_tool needs 3 arguments: ' + asked(server, tool) + ', with {} for no args; it got ' + arguments.length);
    if (!named(server)) return failed('INVALID_ARGS', 'call_tool: server must be a non-empty string, not ' + kindOf(server));
    if (!named(tool)) return failed('INVALID_ARGS', 'call_tool: tool must be a non-empty string, not ' + kindOf(tool));
    const json = argsText(args, 'args');
    if (typeof json !== 'string') return failed('INVALID_ARGS', 'call_tool: ' + json.wrong);
    const id = ++number;
    const answer = ask(id, '{"t":"call","id":' + id + ',"server":' + quote(server) + ',"tool":' + quote(tool) + ',"args":' + json + '}');
    return answer === undefined ? failed('INVALID_ARGS', 'call_tool: ' + TOO_LONG) : enveloped(answer);
  }

  function call_tools(requests, options) {
    try {
      return batch(requests, options, arguments.length);
    } catch (error) {
      return failed('INVALID_ARGS', 'call_tools: the arguments could not be read: ' + told(error).message);
    }
  }

  const MISNAMED = {
    __proto__: null, args: ['arguments', 'params', 'parameters', 'input'], server: ['server_name', 'serverName'],
    tool: ['name', 'tool_name', 'toolName', 'function'],
  };
  /** Where a member of a request went that isn't there, if it can be told. */
  function misplaced(element, member) {
    const others = MISNAMED[member];
    for (let n = 0; n < others.length; n++) if (hasOwn(element, others[n])) return ': it goes in ' + member + ', not in ' + others[n];
    const whole = named(element.tool) ? element.tool : named(element.name) ? element.name : '', at = apply(indexOf, whole, [':']);
    return member === 'server' && at > 0 ? ': write server: ' + quote(apply(slice, whole, [0, at])) + ', tool: ' + quote(apply(slice, whole, [at + 1])) : '';
  }

  function batch(requests, options, given) {
    const wrong = (message) => { noBatch = message; return failed('INVALID_ARGS', 'call_tools: ' + message); };
    if (!given) return wrong('requires 1 argument: an array of {server, tool, args}');
    if (!isArray(requests)) return wrong('requests must be an array of {server, tool, args}, not ' + kindOf(requests));
    const length = requests.length;
    if (length > 100) return wrong('a batch has a maximum of 100 elements, this one has ' + length + '; split it');
    let json = '';
    for (let n = 0; n < length; n++) {
      const at = 'element ' + n;
      if (!(n in requests)) return wrong(at + ': is a hole in a sparse array');
      const element = requests[n];
      if (typeof element !== 'object' || element === null || isArray(element)) return wrong(at + ': must be an object {server, tool, args}, not ' + kindOf(element));
      const server = element.server, tool = element.tool, args = element.args;
      if (!named(server)) return wrong(at + ': server must be a non-empty string, not ' + kindOf(server) + misplaced(element, 'server'));
      if (!named(tool)) return wrong(at + ': tool must be a non-empty string, not ' + kindOf(tool) + misplaced(element, 'tool'));
      const elsewhere = args === undefined ? misplaced(element, 'args') : '';
      if (elsewhere) return wrong(at + ': args are missing' + elsewhere);
      const found = args === undefined ? '{}' : argsText(args, 'args');
      if (typeof found !== 'string') return wrong(at + ': ' + found.wrong);
      json += (n ? ',' : '') + '{"server":' + quote(server) + ',"tool":' + quote(tool) + ',"args":' + found + '}';
    }
    let parallel = 'null';
    if (options !== undefined && options !== null) {
      if (typeof options !== 'object' || isArray(options)) return wrong('options must be an object such as {max_parallel: 4}, not ' + kindOf(options));
      if (hasOwn(options, 'max_parallel')) {
        const asked = options.max_parallel;
        if (!isInteger(asked)) return wrong('options.max_parallel must be an integer between 1 and 32, not ' + inspect(asked, 1, 50));
        if (asked < 1 || asked > 32) return wrong('options.max_parallel must be between 1 and 32, not ' + asked);
        parallel = '' + asked;
      }
    }
    noBatch = undefined;
    if (length === 0) return [];
    const id = number + 1;
    number += length;
    const slots = ask(id, '{"t":"batch","id":' + id + ',"max_parallel":' + parallel + ',"calls":[' + json + ']}');
    if (slots === undefined) return wrong(TOO_LONG);
    for (let n = 0; n < slots.length; n++) enveloped(slots[n]);
    return slots;
  }

  // ── typed calls ───────────────────────────────────────────────────────────────────────────────

  class ToolError extends E {
    constructor(error, server, tool) {
      super(error.message);
      const own = (key, value) => defineProperty(this, key, shown(value));   // an assignment may find a setter of the script's
      own('code', error.code);
      own('server', server);
      own('tool', tool);
      own('retryable', error.retryable);
      if (error.retry_after_ms !== undefined) own('retry_after_ms', error.retry_after_ms);
      if (error.result !== undefined) own('result', error.result);
      apply(weakSet, failures, [this, error.code + ', ' + begun(server) + ':' + begun(tool)]);
    }
  }
  defineProperty(ToolError.prototype, 'name', hidden('ToolError'));

  const PLAIN_KEYS = { __proto__: null, then: 1, catch: 1, finally: 1, constructor: 1 };
  const { toPrimitive, iterator } = Symbol;

  /** A promise that says which `await` is missing when a member of its value is read from it. */
  function hinting(promise, call, entry) {
    const prototype = getPrototypeOf(promise);
    const hint = new Proxy_(create(prototype), {
      __proto__: null,
      get(target, key, receiver) {
        const use = typeof key === 'symbol' ? (key === toPrimitive ? 'make text or a number of' : key === iterator ? 'iterate over' : '') : key === 'toJSON' ? 'write as JSON' : '';
        if (use) throw new TE('cannot ' + use + ' a call that was not awaited: write await ' + call);
        if (PLAIN_KEYS[key]) entry.heard = true;       // awaiting asks for `constructor`
        if (typeof key === 'symbol' || PLAIN_KEYS[key] || key in prototype) return prototype[key];
        throw new TE('cannot read "' + key + '" of a call that was not awaited: write (await ' + call + ').' + key);
      },
    });
    setPrototypeOf(promise, hint);
    return promise;
  }
  const Proxy_ = Proxy;

  // No program means the text "[object Promise]", or {} in JSON.
  defineProperty(P.prototype, toPrimitive, hidden(function () { throw new TE('cannot make text or a number of a promise: await it first'); }));
  defineProperty(P.prototype, 'toJSON', hidden(function () { throw new TE('cannot write a promise as JSON: await it first, an array of them with await Promise.all(...)'); }));

  /** Where the script called: an answer comes from nowhere. */
  const here = () => apply(engineStack, new E(''), []);

  function typed(server, tool, call, args) {
    if (typeof args[0] === 'function') {
      // Somebody awaits the server itself, which has a tool called `then`.
      if (typeof args[1] === 'function') args[1](new TE('tools' + step('', server) + ' is no promise: await one of its tools, e.g. await ' + call));
      return undefined;
    }
    const json = args[0] === undefined || args[0] === null ? '{}' : argsText(args[0], 'args');
    const entry = { __proto__: null, resolve: undefined, reject: undefined, server, tool, call, site: here(), heard: false };
    const invalid = (wrong) => fails(entry, { code: 'INVALID_ARGS', message: call + ': ' + wrong, retryable: false });
    const promise = hinting(new P((resolve, reject) => { entry.resolve = resolve; entry.reject = reject; }), call, entry);
    if (typeof json !== 'string' && named(args[0]) && plain(args[1])) { invalid('write await tools' + step('', server) + step('', args[0]) + '({...})'); return promise; }
    if (typeof json !== 'string') { invalid(json.wrong + '. await describe_tool(' + quote(begun(server) + ':' + begun(tool)) + ') shows its parameters'); return promise; }
    const id = ++number;
    waiting[id] = entry;
    inFlight++;
    if (send('{"t":"call","id":' + id + ',"typed":true,"server":' + quote(server) + ',"tool":' + quote(tool) + ',"args":' + json + '}')) return promise;
    delete waiting[id];
    inFlight--;
    invalid(TOO_LONG);
    return promise;
  }

  const unheard = create(null);       // the first failures of calls that nobody had awaited yet
  let failing = 0;
  function fails(entry, error) {
    const thrown = entry.server === undefined ? new E(error.message) : new ToolError(error, entry.server, entry.tool);
    apply(weakSet, captured, [thrown, entry.site]);
    if (!entry.heard && failing < 100) unheard[failing++] = { __proto__: null, entry, said: entry.call + ': ' + (error.code === undefined ? '' : error.code + ': ') + error.message };
    entry.reject(thrown);
  }

  /** A sentence about calls that failed and that nobody awaited; "" where there are none. */
  function unnoticed() {
    let first = '', count = 0;
    for (let n = 0; n < failing; n++) if (!unheard[n].entry.heard && ++count === 1) first = unheard[n].said;
    return count === 0 ? '' : (count === 1 ? 'a call failed that nobody awaited: ' : count + ' calls failed that nobody awaited, the first: ') + first;
  }

  /** How many calls the script has made whose answers it hasn't had. */
  function unanswered() {
    const ids = keys(waiting);
    let count = 0;
    for (let n = 0; n < ids.length; n++) if (waiting[ids[n]].server !== undefined) count++;
    return count;
  }

  const nameless = (key) => typeof key === 'symbol' || key === 'toJSON';
  const question = (what, rest) => { const id = ++number, answer = ask(id, '{"t":"ask","id":' + id + ',"what":"' + what + '"' + rest + '}'); if (answer === undefined) throw new TE(TOO_LONG); return answer; };

  /** A namespace: every name in it is just a name, those of Object.prototype included. */
  const SPACE = create(null);
  known('group of tools', SPACE);
  function namespace(find, names) {
    const target = create(SPACE);
    return new Proxy_(target, {
      __proto__: null,
      get: (_, key) => nameless(key) ? undefined : find(key),
      has: (_, key) => !nameless(key) && names()[key] !== undefined,
      ownKeys: () => keys(names()),
      getOwnPropertyDescriptor: (_, key) => nameless(key) || names()[key] === undefined ? undefined : shown(find(key)),
      set: () => false, deleteProperty: () => false, defineProperty: () => false,
    });
  }

  function once(load) {
    let found;
    return () => found ??= load();
  }

  /** What a name stands for that differs from one of the names, and from one alone, in case, in `_`, `-`, `.` and spaces, or in what goes before it. */
  function otherwise(named, before = '') {
    const table = once(() => {
      const found = create(null), names = keys(named());
      for (let n = 0; n < names.length; n++) { const folded = fold(names[n]); found[folded] = folded in found ? undefined : names[n]; }
      return found;
    });
    return (key) => table()[fold(key)] ?? (before ? table()[fold(before + key)] : undefined);
  }
  const { toLowerCase } = S.prototype;
  function fold(name) {
    const lower = apply(toLowerCase, name, []);
    let out = '';
    for (let n = 0; n < lower.length; n++) { const c = lower[n]; if (c !== '_' && c !== '-' && c !== '.' && c !== ' ') out += c; }
    return out;
  }

  function serverSpace(server) {
    const functions = create(null);
    const listing = once(() => question('tools', ',"server":' + quote(server)));
    const original = create(null);
    const named = once(() => {
      const found = listing(), names = create(null);
      for (let n = 0; n < found.names.length; n++) names[found.names[n]] = found.names[n];
      const spelt = keys(found.spellings);
      for (let n = 0; n < spelt.length; n++) original[spelt[n]] = found.spellings[spelt[n]];
      return names;
    });
    const meant = otherwise(named, server);
    return namespace((key) => {
      const names = named();
      const tool = names[key] ?? original[key] ?? meant(key);
      if (key === 'then' && tool === undefined) return undefined;       // asked of every value that is awaited or given as the result
      // A tool that isn't listed may have come meanwhile, or its server may not be up yet: the host knows.
      return functions[key] ??= caller(server, tool ?? key, key);
    }, named);
  }
  function caller(server, tool, name) {
    const call = 'tools' + step('', server) + step('', tool) + '(…)';
    return defineProperty_(function (args) { return typed(server, tool, call, arguments); }, 'name', hidden(name));
  }
  const defineProperty_ = (object, key, descriptor) => { defineProperty(object, key, descriptor); return object; };

  const servers = create(null);
  const listing = once(() => question('servers', ''));
  const serverNames = once(() => {
    const names = create(null), found = listing();
    for (let n = 0; n < found.names.length; n++) names[found.names[n]] = found.names[n];
    return names;
  });
  const serverMeant = otherwise(serverNames);
  const tools = namespace((key) => {
    const names = serverNames();
    const server = names[key] ?? (hasOwn(listing().spellings, key) ? listing().spellings[key] : key === 'then' ? undefined : serverMeant(key));
    if (server === undefined) {
      if (key === 'then') return undefined;      // asked of every value that is awaited or given as the result
      const answer = question('close_server', ',"server":' + quote(key));
      throw new TE(answer.message);
    }
    return servers[server] ??= serverSpace(server);
  }, serverNames);

  // ── discovery, console, time ──────────────────────────────────────────────────────────────────

  function discover(what, call, json) {
    const entry = { __proto__: null, resolve: undefined, reject: undefined, server: undefined, tool: what, call, site: here(), heard: false };
    const promise = hinting(new P((resolve, reject) => { entry.resolve = resolve; entry.reject = reject; }), call, entry);
    const id = ++number;
    waiting[id] = entry;
    inFlight++;
    if (send('{"t":"ask","id":' + id + ',"what":"' + what + '","later":true,' + json + '}')) return promise;
    delete waiting[id];
    inFlight--;
    fails(entry, { message: TOO_LONG });
    return promise;
  }

  function search_tools(query, options) {
    // {query, limit, server} is how the tool of the same name takes them.
    if (options === undefined && typeof query === 'object' && query !== null) { options = query; query = query.query; }
    const asked = options === undefined || options === null ? {} : options;
    return discover('search', 'search_tools(…)', '"query":' + loose(query) + ',"limit":' + loose(asked.limit) + ',"server":' + loose(asked.server));
  }
  const describe_tool = (name, tool) => discover('describe', 'describe_tool(…)', '"name":' + loose(named(name) && named(tool) ? name + ':' + tool : name));
  const loose = (value) => { try { return value === undefined ? 'null' : toText(value, 'value', true); } catch { return '{}'; } };

  /** printf-like directives of the Console Standard: %s %d %i %f %j %o %O %c %%. */
  function format(values) {
    const pattern = values[0];
    let text = '', used = 1, at = 0;
    for (;;) {
      const next = apply(indexOf, pattern, ['%', at]);
      if (next < 0 || next === pattern.length - 1) break;
      const directive = pattern[next + 1], whole = apply(slice, pattern, [at, next]);
      at = next + 2;
      if (directive === '%') { text += whole + '%'; continue; }
      const known = directive === 's' || directive === 'd' || directive === 'i' || directive === 'f' || directive === 'j' || directive === 'o' || directive === 'O' || directive === 'c';
      if (!known || used >= values.length) { text += whole + '%' + directive; continue; }
      const value = values[used++];
      text += whole + filled(directive, value);
    }
    return { text: text + apply(slice, pattern, [at]), used };
  }
  function filled(directive, value) {
    if (directive === 'c') return '';
    if (directive === 's') return inspect(value, 0, LOG_BYTES);
    if (directive === 'j') { try { return stringify(value) ?? 'undefined'; } catch { return '[Circular]'; } }
    if (directive === 'o' || directive === 'O') return inspect(value, 1, LOG_BYTES);
    if (typeof value === 'bigint') return value + 'n';
    if (typeof value === 'object' || typeof value === 'symbol') return 'NaN';
    return inspect(directive === 'd' ? toNumber(value) : directive === 'i' ? toInteger(value) : toFloat(value), 0, 100);
  }
  const toNumber = Number, toInteger = parseInt, toFloat = parseFloat;

  const LOG_BYTES = 65536;
  let logged = 0, dropped = 0, indent = '';
  function log(level, values) {
    if (logged >= LOG_BYTES) { dropped++; return; }
    let line = '', first = 0;
    if (typeof values[0] === 'string' && values.length > 1) { const filled = format(values); line = filled.text; first = filled.used; }
    for (let n = first; n < values.length && line.length <= LOG_BYTES; n++) line += (n ? ' ' : '') + inspect(values[n], 0, LOG_BYTES);
    line = indent + line;
    const room = LOG_BYTES - logged;
    if (line.length > room) line = apply(slice, line, [0, room]) + ' … (' + (line.length - room) + ' characters left out)';
    logged += line.length + 16;
    send('{"t":"log","level":"' + level + '","text":' + quote(line) + '}');
  }
  const console = {};
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) {
    console[level] = { [level](...values) { log(level, values); } }[level];
  }
  const { log: plainLog, error: errorLog, debug: debugLog, warn: warnLog } = console;
  const counts = create(null), times = create(null), now = performance.now, clock = performance;
  const named_ = (label) => label === undefined ? 'default' : inspect(label, 0, 100);
  function elapsed(label, what, ends) {
    const key = named_(label), began = times[key];
    if (began === undefined) { warnLog('No such label "' + key + '" for console.' + what + '()'); return; }
    plainLog(key + ': ' + apply(toFixed, apply(now, clock, []) - began, [3]) + 'ms');
    if (ends) delete times[key];
  }
  const toFixed = Number.prototype.toFixed;
  const group = (...values) => { if (values.length) plainLog(...values); if (indent.length < 40) indent += '  '; };
  for (const [name, method] of [
    ['trace', (...values) => { debugLog('Trace:', ...values); }], ['dir', (value) => { plainLog(value); }], ['dirxml', plainLog], ['table', (value) => { plainLog(value); }],
    ['group', group], ['groupCollapsed', group], ['groupEnd', () => { indent = apply(slice, indent, [2]); }], ['clear', () => {}],
    ['assert', (held, first, ...values) => { if (!held) { if (typeof first === 'string') errorLog('Assertion failed: ' + first, ...values); else if (first === undefined) errorLog('Assertion failed'); else errorLog('Assertion failed:', first, ...values); } }],
    ['count', (label) => { const key = named_(label); counts[key] = (counts[key] ?? 0) + 1; plainLog(key + ': ' + counts[key]); }],
    ['countReset', (label) => { counts[named_(label)] = 0; }],
    ['time', (label) => { times[named_(label)] = apply(now, clock, []); }],
    ['timeLog', (label) => { elapsed(label, 'timeLog', false); }],
    ['timeEnd', (label) => { elapsed(label, 'timeEnd', true); }],
  ]) console[name] = method;

  function sleep(ms) {
    const asked = typeof ms === 'number' && ms >= 0 ? ms : 0;
    return new P((resolve) => {
      const id = ++number;
      waiting[id] = { __proto__: null, resolve, timer: true };
      inFlight++;
      host.sleep(id, asked > 2147483647 ? 2147483647 : asked);
    });
  }

  // ── the random numbers: forked processes share the engine's own seed ──────────────────────────

  let a = 1, b = 2, c = 3, d = 4;
  const imul = Math.imul;
  function seed(first, second, third, fourth) { a = first; b = second; c = third; d = fourth | 1; for (let n = 0; n < 12; n++) sfc32(); }
  function sfc32() {              // Chris Doty-Humphrey's small fast counter, of PractRand
    const t = (a + b | 0) + d | 0;
    d = d + 1 | 0;
    a = b ^ b >>> 9;
    b = c + (c << 3) | 0;
    c = (c << 21 | c >>> 11) + t | 0;
    return t >>> 0;
  }
  defineProperty(Math, 'random', hidden(function random() { return ((sfc32() >>> 5) * 67108864 + (sfc32() >>> 6)) / 9007199254740992; }));

  // ── the life of a script ──────────────────────────────────────────────────────────────────────

  let outcome = 0, held;              // 0 running, 1 a value, 2 a failure
  const settle = (kind, value) => { if (outcome === 0) { outcome = kind; held = value; host.settled(); } };

  function publish(name, value) { defineProperty(G, name, hidden(value)); }

  const api = {
    /** Evaluate a program; true when it has its outcome. `mode`: plain, function (call it), wrapped (call it, no input). */
    run(program, mode, json, first, second, third, fourth) {
      seed(first, second, third, fourth);
      const input = parse(json);
      publish('input', input);
      try {
        let value = evaluate(program);
        if (mode === 'function') value = value(input);
        else if (mode === 'wrapped') value = apply(value, G, [undefined]);
        if ((typeof value === 'object' && value !== null || typeof value === 'function') && typeof value.then === 'function' && plainOrPromise(value)) {
          apply(then, new P((resolve) => resolve(value)), [(found) => settle(1, found), (thrown) => settle(2, thrown)]);
          return false;
        }
        outcome = 1;
        held = value;
      } catch (thrown) {
        outcome = 2;
        held = thrown;
      }
      return true;
    },

    /** Be as if nothing had run. Only ever called after a rehearsal. */
    reset() {
      outcome = number = 0;
      held = undefined;
      delete G.input;
    },

    /** An answer from the host to something that was asked without waiting. */
    deliver(json) {
      const at = apply(indexOf, json, [' ']), id = apply(slice, json, [0, at]);
      const entry = waiting[id];
      if (entry === undefined) return;
      delete waiting[id];
      inFlight--;
      if (entry.timer) { entry.resolve(undefined); return; }
      const answer = parse(apply(slice, json, [at + 1]));
      if (!answer.ok) fails(entry, entry.server === undefined ? answer : answer.error);
      else entry.resolve(entry.server === undefined ? answer.value : received(entry, dataOf(answer.result), answer.result));
    },

    /** How many answers and timers could still wake the script. */
    pending: () => inFlight,

    /** The text of the last frame. Called with some memory to spare. */
    report() {
      const said = outcome === 1 ? unnoticed() : '', unread = outcome === 1 && inFlight > 0 ? unanswered() : 0;
      if (said || unread || shapes > 0 && (outcome !== 1 || held === undefined)) send('{"t":"noticed","warning":' + quote(said) + ',"gave":' + stringify(gave) + ',"unread":' + unread + '}');
      if (outcome === 1) return reportValue();
      if (outcome === 0) return failure('error', NEVER);
      const found = told(held);
      const compiling = found.syntax && apply(test, COMPILING, [found.stack]) !== null;
      const after = noBatch !== undefined && apply(test, NO_ARRAY, [found.message]) !== null ? '. call_tools gave no array but one envelope, {ok: false, error}: ' + short(noBatch)
        : lastFailure !== undefined && apply(test, UNSET, [found.message]) !== null ? unheeded() : '';
      return failure(found.memory ? 'memory' : compiling ? 'syntax' : 'error', found.message, found.stack, undefined, after);
    },

    /** Whether a program compiles: told apart from a SyntaxError the script threw itself. */
    compiles(json) {
      const program = parse(json);
      return stops((apply(test, STRICT, [program]) !== null ? '"use strict";' : '') + 'throw 0;' + program);
    },

    /** Whether a text compiles as the body of a function. */
    fits(json) {
      // A text that closes the function it was put into can do so in one of these two, never in both:
      // after a method comes `,` or `}`, after a declaration neither.
      const body = parse(json);
      const whole = stops('throw 0;({async body(){' + body + '\n}})') && stops('throw 0;async function $body(){' + body + '\n}');
      delete G.$body;
      return whole;
    },
  };

  // What begins with a throw never runs.
  const stops = (program) => { try { evaluate(program); } catch (thrown) { return thrown === 0; } return false; };
  const STRICT = /^(?:\s|\/\/[^\n]*\n|\/\*[^]*?\*\/)*(['"])use strict\1/;
  const NEVER = 'Error: the script waits for a promise that can never settle: nothing is left that could resolve it. Check that each new Promise(...) calls its resolve or reject';
  const COMPILING = /^(?: {4}at <input>:\d+:\d+\n)?$/, UNSET = /^TypeError: cannot read property .* of undefined/, NO_ARRAY = /^TypeError: (?:not a function|value is not iterable|cannot read property )/;
  const failure = (kind, message, stack, code, after) => stringify({ __proto__: null, t: 'failed', dropped, kind, code, message, stack: stack ?? '', after });
  const unheeded = () => '. The last call had failed, and a failed call has no result: ' + short(lastFailure) + '. Look at res.ok before res.result';

  function plainOrPromise(value) {
    try { const kind = builtin(value); return kind === undefined || kind === 'Promise'; } catch { return true; }
  }

  function reportValue() {
    const refusal = typeof held === 'object' && held !== null ? apply(weakGet, refused, [held]) : undefined;
    if (refusal !== undefined) return failure('refused', refusal.message, '', refusal.code);
    if (held === undefined) {
      const seen = logged ? '. What it logged is under logs, which is not its value' : '';
      return failure('serialization', 'the script gave no value (undefined): end it with an expression such as `result` or `({ ... })`, or add `return ...`' + seen + (lastFailure === undefined ? '' : unheeded()));
    }
    try {
      const written = toText(held, 'value', false);    // which may write to the console, too
      return '{"t":"done","dropped":' + dropped + ',"value":' + written + '}';
    } catch (thrown) {
      if (unwritable(thrown)) return failure('serialization', thrown.message);
      const place = unread, found = told(thrown);         // which may run the script's own
      return failure(found.memory ? 'memory' : 'serialization', place + ': reading the result threw ' + found.message + '; return plain data instead', found.stack);
    }
  }

  const settled = P.resolve();
  publish('queueMicrotask', function queueMicrotask(callback) {
    if (typeof callback !== 'function') throw new TE('queueMicrotask needs a function, not ' + kindOf(callback));
    apply(then, settled, [() => { try { callback(); } catch (thrown) { settle(2, thrown); } }]);
  });
  publish('call_tool', call_tool);
  publish('call_tools', call_tools);
  publish('tools', tools);
  publish('ToolError', ToolError);
  publish('search_tools', search_tools);
  publish('describe_tool', describe_tool);
  publish('console', console);
  publish('sleep', sleep);
  const call = (name, a, b, c, d, e, f, g) => { const found = api[name](a, b, c, d, e, f, g); return typeof found === 'string' ? S(found) : found; };
  return { call, publish, hidden, host, known };
})
