// What an error of the engine leaves unsaid, found on the syntax tree of the program: which expression
// was no function, what was undefined, where a value was thrown that has no stack of its own.
//
// Only asked once a script has failed. All of it is a guess from the place that the engine gave, which
// is exact for some operations and the one before for others; where two guesses are left, none is told.
(function (parse) {
  'use strict';
  const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
  const LONGEST = 60;

  function children(node) {
    const found = [];
    for (const key in node) {
      const value = node[key];
      for (const item of Array.isArray(value) ? value : [value]) if (item && typeof item.type === 'string') found.push(item);
    }
    return found;
  }

  /** Every node, in the order of the source; `enter` says whether to look into one. */
  function nodes(root, enter = () => true) {
    const found = [], todo = [root];
    while (todo.length) {
      const node = todo.pop();
      found.push(node);
      if (node === root || enter(node)) todo.push(...children(node).sort((x, y) => y.start - x.start));
    }
    return found;
  }

  /** The functions around a place, innermost first, and the program. An arrow function's first place is right before it. */
  const around = (program, at) => [program, ...nodes(program).filter((node) => FUNCTIONS.has(node.type) && node.start - 1 <= at && at < node.end)].reverse();

  const only = (found) => found.length === 1 ? found[0] : undefined;

  /** A call is placed somewhere between the name that is called and its first argument. */
  function callee(all, at, type) {
    const places = all.filter((node) => node.type === type).map((node) => {
      const from = type === 'CallExpression' && node.callee.type === 'MemberExpression' ? node.callee.object.end : node.callee.start;
      return { node, from, to: node.arguments.length ? node.arguments[0].start : node.end };
    }).filter(({ from, to }) => from - 1 <= at && at <= to);
    return places.sort((x, y) => y.from - x.from)[0]?.node.callee;
  }

  const BUILT_IN = new Set(['Date', 'Map', 'Set', 'RegExp', 'Error', 'URL', 'URLSearchParams', 'Promise', 'Array', 'Uint8Array']);
  /** What is called with an argument at this place: a class of the engine that is made there can't be what is missing. */
  function holder(all, at) {
    const inside = (node) => node.type === 'CallExpression' && node.arguments.some(({ start, end }) => start <= at && at <= end);
    return all.filter(inside).sort((x, y) => y.start - x.start)[0]?.callee;
  }

  const named = (node) => !node.computed ? node.property.name : node.property.type === 'Literal' ? String(node.property.value) : undefined;

  /** Where member `key` of something was asked for: at this place, or at the one that there is in the program. */
  function member(all, at, key) {
    const members = all.filter((node) => node.type === 'MemberExpression'), exact = members.filter((node) => named(node) === key);
    const here = (node) => node.start <= at && at <= node.property.end;
    if (exact.some(here)) return only(exact.filter(here));
    return only(members.filter((node) => here(node) && node.computed && named(node) === undefined)) ?? only(exact);
  }

  /** What is iterated at exactly this place. */
  function iterated(all, at) {
    for (const node of all) {
      const what = node.type === 'SpreadElement' ? node.argument : node.type === 'ForOfStatement' ? node.right : undefined;
      if (what?.start === at) return what;
    }
    return undefined;
  }

  /** Taking apart has no place of its own in the engine: it is the next that follows the place given. */
  function takenApart(scopes, at, type) {
    if (!scopes.length) return undefined;
    const inner = nodes(scopes[0], (node) => !FUNCTIONS.has(node.type));
    const patterns = inner.filter((node) => node.start >= at && (type === undefined ? /^(?:Object|Array)Pattern$/.test(node.type) : node.type === type));
    const pattern = patterns[0];
    if (!pattern) return takenApart(scopes.slice(1), at, type);
    const from = inner.find((node) => node.id === pattern)?.init ?? inner.find((node) => node.left === pattern)?.right;
    return { pattern, from };
  }

  function blame(source, at, message, top) {
    const text = (node) => {
      const found = source.slice(node.start, node.end).replace(/\s+/g, ' ').replace(/ (?=\??\.)/g, '');
      return found.length > LONGEST ? found.slice(0, LONGEST) + '…' : found;
    };
    const program = parse(source), all = nodes(program);
    let match;
    if ((match = /^TypeError: not a (function|constructor)$/.exec(message))) {
      const made = callee(all, at, 'NewExpression');
      const what = callee(all, at, 'CallExpression') ?? (made && BUILT_IN.has(made.name) ? holder(all, at) : made);
      return what && { message: `TypeError: ${text(what)} is not a ${match[1]}` };
    }
    const unset = /^TypeError: cannot (?:read|set) property '(.+)' of (undefined|null)$/s.exec(message);
    if (unset && unset[1] !== 'Symbol.iterator') {
      const what = member(all, at, unset[1]);
      if (!what) return undefined;
      const moved = what.start <= at && at <= what.end ? {} : { at: what.start };
      return text(what.object) === unset[2] ? moved : { ...moved, message: `${message} (${text(what.object)} is ${unset[2]})` };
    }
    const loop = unset !== null || message === 'TypeError: value is not iterable';
    if (!loop && message !== 'TypeError: Cannot convert undefined or null to object') return undefined;
    const what = loop ? iterated(all, at) : all.find((node) => node.type === 'UnaryExpression' && node.operator === 'delete' && node.argument.start === at)?.argument.object;
    if (what) return { message: loop ? `TypeError: ${text(what)} is not iterable${unset ? ` (it is ${unset[2]})` : ''}` : `${message} (${text(what)})` };
    const found = takenApart(top ? [program] : around(program, at), at, loop ? 'ArrayPattern' : 'ObjectPattern');
    if (!found) return undefined;
    const value = loop && !unset ? 'is not iterable' : `is ${unset ? unset[2] : 'undefined or null'}`;
    return { at: found.pattern.start, message: `TypeError: cannot destructure ${text(found.pattern)}${found.from ? ` from ${text(found.from)}` : ''}: what is taken apart ${value}` };
  }

  /** Where a value was thrown that is no error: the one place it can have been. */
  function thrown(source, message) {
    const made = (node) => node?.type === 'NewExpression' && /Error$/.test(node.callee.name ?? '');
    const found = [];
    for (const node of nodes(parse(source))) {
      if (node.type === 'ThrowStatement' && !made(node.argument)) found.push({ at: node.start, value: node.argument });
      else if (node.type === 'CallExpression' && /(?:^|\.)reject$/.test(source.slice(node.callee.start, node.callee.end)) && !made(node.arguments[0])) found.push({ at: node.start, value: node.arguments[0] });
    }
    const same = found.filter(({ value }) => value?.type === 'Literal' && 'Uncaught ' + value.value === message);
    return only(same.length ? same : found);
  }

  const answer = (find) => (json) => { try { return JSON.stringify(find(...JSON.parse(json)) ?? {}); } catch { return '{}'; } };
  return { blame: answer(blame), thrown: answer(thrown) };
})
