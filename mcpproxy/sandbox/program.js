// How a source becomes a program that gives a value, worked out on its syntax tree (by acorn, in a
// context of its own that no script ever shares).
//
// A script gives its value by a top-level `return`, or as its completion value, and may use
// top-level `await`. What `eval` does not take is wrapped in a function in which each statement
// that has a completion value assigns it to a variable, as ECMA-262 prescribes with UpdateEmpty.
// Nothing of the source is rewritten: text is only inserted, so every position can be mapped back.
(function () {
  'use strict';
  const EXPORTS = { allowImportExportEverywhere: true };
  const OPTIONS = { ecmaVersion: 'latest', sourceType: 'script', allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true, allowHashBang: true, allowSuperOutsideMethod: false };

  /** A parser that names what it didn't expect. */
  const naming = (Parser) => class extends Parser {
    get allowUsing() { return true; }
    unexpected(at = this.start) {
      const [waiting] = /(?<![\w$.])await\s+$/.exec(this.input.slice(Math.max(0, at - 50), at)) ?? [];
      if (waiting && !this.inAsync && /[\w$'"`([{]/.test(this.input[at])) this.raise(at - waiting.length, 'await is only valid in an async function: write async in front of the function around it');
      const [found] = /^(?:[\p{L}\p{N}_$]+|\S)?/u.exec(this.input.slice(at, at + 50));
      this.raise(at, found ? `Unexpected token ${found === "'" ? '"\'"' : `'${found}'`}` : 'Unexpected end of input');
    }
  };
  const Script = acorn.Parser.extend(naming);

  const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
  const LISTS = new Set(['Program', 'BlockStatement', 'SwitchCase', 'StaticBlock']);
  const LOOPS = new Set(['ForStatement', 'ForInStatement', 'ForOfStatement', 'WhileStatement', 'DoWhileStatement']);
  /** Statements that are `undefined` rather than nothing when no part of them has a value. */
  const EMPTIES = new Set([...LOOPS, 'IfStatement', 'SwitchStatement', 'TryStatement', 'WithStatement']);

  /** Whether top-level code has a return, or an await that belongs to no function. */
  function uses(program) {
    const found = { returns: false, awaits: false };
    const todo = [program];
    while (todo.length) {
      const node = todo.pop();
      if (node.type === 'ReturnStatement') found.returns = true;
      else if (node.type === 'AwaitExpression' || node.type === 'ForOfStatement' && node.await) found.awaits = true;
      else if (node.type === 'VariableDeclaration' && node.kind === 'await using') found.awaits = true;
      else if (node.type === 'VariableDeclaration' && node.kind === 'using') found.returns = true;   // a script may not have it
      // What a class computes while it is defined is top-level code; its methods are functions.
      if (!FUNCTIONS.has(node.type)) todo.push(...children(node));
    }
    return found;
  }

  function children(node) {
    const found = [];
    for (const key in node) {
      if (key === 'property' && !node.computed) continue;          // just a name
      const value = node[key];
      if (Array.isArray(value)) { for (const item of value) if (item && typeof item.type === 'string') found.push(item); }
      else if (value && typeof value.type === 'string') found.push(value);
    }
    return found;
  }

  /** Insertions [offset, text] that keep the completion value of `node` in `name`. */
  function completions(source, node, name, out, parent) {
    let bare = node;
    while (bare.type === 'LabeledStatement') bare = bare.body;
    const reset = name + '=void 0;', each = (inner) => completions(source, inner, name, out, bare);
    const alone = EMPTIES.has(bare.type) && LOOPS.has(parent?.type);
    if (alone) out.push([node.start, '{' + reset]);
    else if (EMPTIES.has(bare.type) && LISTS.has(parent?.type)) out.push([node.start, reset]);
    switch (bare.type) {
      case 'ExpressionStatement': {
        if (bare.directive !== undefined) break;
        out.push([bare.start, name + '=(']);
        out.push([source[bare.end - 1] === ';' ? bare.end - 1 : bare.end, ')']);
        break;
      }
      case 'Program': case 'BlockStatement': bare.body.forEach(each); break;
      case 'IfStatement': each(bare.consequent); if (bare.alternate) each(bare.alternate); break;
      case 'ForStatement': case 'ForInStatement': case 'ForOfStatement': case 'WhileStatement': case 'DoWhileStatement': case 'WithStatement':
        each(bare.body); break;
      case 'SwitchStatement': for (const one of bare.cases) for (const inner of one.consequent) completions(source, inner, name, out, one); break;
      case 'TryStatement': {
        each(bare.block);
        if (bare.handler) {
          out.push([bare.handler.body.start + 1, reset]);
          each(bare.handler.body);
        }
        if (bare.finalizer) {   // it has a say only where it ends with a jump
          const kept = name + '$';
          out.push([bare.finalizer.start + 1, 'const ' + kept + '=' + name + ';' + reset]);
          each(bare.finalizer);
          out.push([bare.finalizer.end - 1, ';' + name + '=' + kept]);
        }
      }
    }
    if (alone) out.push([node.end, '}']);
  }

  const callable = (node) => (node.type === 'ArrowFunctionExpression' || node.type === 'FunctionExpression' || node.type === 'FunctionDeclaration') && !node.generator;

  /** The function that is all there is to a source, if it is one. */
  function lone(program) {
    if (program.body.length !== 1 && !(program.body.length === 2 && program.body[1].type === 'EmptyStatement')) return undefined;
    const [only] = program.body;
    if (only.type === 'FunctionDeclaration' && callable(only)) return 'declaration';
    return only.type === 'ExpressionStatement' && callable(only.expression) ? 'expression' : undefined;
  }

  const unused = (source, name) => { while (source.includes(name)) name += '$'; return name; };
  const COMMONJS = /^(?:module\.)?exports(?:\.[\w$]+)?\s*=\s*$/;

  /** The functions that are declared at the top, with their names. */
  function declared(program) {
    const found = [];
    for (const node of program.body) {
      if (node.type === 'FunctionDeclaration' && callable(node)) found.push([node.id.name, node]);
      for (const { id, init } of node.declarations ?? []) if (id?.type === 'Identifier' && init && callable(init)) found.push([id.name, init]);
    }
    return found;
  }

  /** A program without its exports, the insertions that take them out, and the name of what it exports by default. */
  function unexported(source, program) {
    const insert = [], body = [], defaults = [], functions = new Set(declared(program).map(([name]) => name));
    const hide = (from, to, after = '') => {
      if (source.slice(from, to).includes('*/')) throw Object.assign(new SyntaxError('the words of an export have a comment between them'), { pos: from });
      insert.push([from, '/*'], [to, '*/' + after]);
    };
    const byDefault = (node, value) => {
      const anonymous = !value.id || !value.type.endsWith('Declaration'), name = anonymous ? unused(source, '$default') : value.id.name;
      hide(node.start, value.start, anonymous ? `const ${name}=` : '');
      defaults.push({ name, value });
      body.push(anonymous ? { type: 'VariableDeclaration', kind: 'const', declarations: [{ type: 'VariableDeclarator', init: value, start: value.start, end: value.end }], start: value.start, end: node.end } : value);
    };
    for (const node of program.body) {
      const { type, declaration, expression } = node;
      if (type === 'ImportDeclaration' || type === 'ExportAllDeclaration' || node.source) throw Object.assign(new SyntaxError(MODULE), { pos: node.start });
      const sent = type === 'ExpressionStatement' && expression.type === 'AssignmentExpression' && COMMONJS.test(source.slice(node.start, expression.right.start)) ? expression.right : undefined;
      if (type === 'ExportDefaultDeclaration') byDefault(node, declaration);
      else if (sent?.type === 'ObjectExpression' && sent.properties.every(({ shorthand, value }) => shorthand && functions.has(value.name))) { insert.push([node.start, ';']); hide(node.start, node.end); }
      else if (sent && (callable(sent) || sent.type === 'Identifier' || sent.type === 'ObjectExpression')) byDefault(node, sent);
      else if (type !== 'ExportNamedDeclaration') body.push(node);
      else if (declaration) { hide(node.start, declaration.start); body.push(declaration); }
      else { insert.push([node.start, ';']); hide(node.start, node.end); }
    }
    return { program: { ...program, body }, insert, entry: defaults.length === 1 ? defaults[0] : undefined };
  }

  /** How often a name stands for a value, but within `inside`. */
  function mentions(program, name, inside) {
    let count = 0;
    const todo = [...program.body];
    while (todo.length) {
      const node = todo.pop();
      if (node === inside) continue;
      if (node.type === 'Identifier' && node.name === name) count++;
      todo.push(...children(node));
    }
    return count;
  }

  const DECLARES = new Set(['FunctionDeclaration', 'ClassDeclaration', 'VariableDeclaration', 'EmptyStatement']);
  const ACTS = new Set(['CallExpression', 'NewExpression', 'AwaitExpression', 'TaggedTemplateExpression', 'ImportExpression']);
  const NAMED = /^(?:main|run|execute|handler|start)$/;

  /** The function that is called by nobody in a program that does nothing but declare. */
  function uncalled(program) {
    const found = declared(program), todo = [];
    for (const node of program.body) {
      if (!DECLARES.has(node.type) && node.directive === undefined) return undefined;
      if (node.type !== 'FunctionDeclaration') todo.push(node);
    }
    while (todo.length) {
      const node = todo.pop();
      if (ACTS.has(node.type)) return undefined;
      if (!FUNCTIONS.has(node.type)) todo.push(...children(node));
    }
    const free = found.filter(([name, node]) => mentions(program, name, node) === (node.type === 'FunctionDeclaration' ? 0 : 1));
    const named = free.filter(([name]) => NAMED.test(name)), [only] = free.length === 1 ? free : named;
    return named.length > 1 && free.length > 1 ? undefined : only?.[0];
  }

  /** The call at the end of a program that its own text lacks: of what it exports by default, or of a function that nobody calls. */
  function lacking(program, entry) {
    const calls = entry ? mentions(program, entry.name, entry.value) === 0 && entry.value.type !== 'ClassDeclaration' && entry.name : uncalled(program);
    return calls ? `typeof ${calls}==='function'?${calls}(input):${calls}` : '';
  }

  function plan(source) {
    let program;
    try {
      program = Script.parse(source, { ...OPTIONS, ...EXPORTS });
    } catch (error) {
      // `function (input) { ... }` is no statement, yet plainly the whole source.
      if (!/^\s*(?:\/\/[^\n]*\n\s*|\/\*[^]*?\*\/\s*)*(?:async\s+)?function\b/.test(source)) throw error;
      try {
        if (lone(Script.parse('(' + source + '\n)', OPTIONS)) !== 'expression') throw error;
      } catch { throw error; }
      return { mode: 'function', insert: [[0, '('], [source.length, '\n)']] };
    }
    if (lone(program)) {
      const trailing = program.body[0].type === 'ExpressionStatement' && source[program.body[0].end - 1] === ';';
      const end = trailing ? program.body[0].end - 1 : program.body[0].end;
      return { mode: 'function', insert: [[program.body[0].start, '('], [end, ')']] };
    }
    const { insert, entry, ...rest } = unexported(source, program);
    const found = uses(program = rest.program), last = found.returns ? '' : lacking(program, entry);
    if (!found.returns && !found.awaits) return { mode: 'plain', insert: last ? [...insert, [source.length, '\n;' + last]] : insert };
    const name = unused(source, '$completion');
    insert.unshift([0, (found.awaits ? '(async function(' : '(function(') + name + '){']);
    completions(source, program, name, insert);
    insert.push([source.length, (last && `\n;${name}=${last}`) + '\nreturn ' + name + '\n})']);
    return { mode: 'wrapped', insert: insert.sort((x, y) => x[0] - y[0]) };
  }

  const MODULE = 'import and export belong to modules, and this is a script';
  const MODULES = /^'import' and 'export' may appear only .*/;
  const INVISIBLE = /^(Unexpected character) '([\p{C}\p{Z}])'$/u;
  const ENDED = 'Unexpected end of input', LONGEST_LINE = 60;

  /** The line of the bracket that is open where a source ends, or of the first one that is closed in a line indented otherwise. */
  function unclosed(source) {
    const open = [], line = (at) => source.slice(source.lastIndexOf('\n', at - 1) + 1).split('\n', 1)[0];
    const indent = (at) => /^\s*/.exec(line(at))[0].length;
    let odd;
    try {
      for (const { type, start, end } of acorn.tokenizer(source, OPTIONS)) {
        const text = type.label === 'template' ? '' : source.slice(start, end);
        if (text === '(' || text === '[' || text === '{' || text === '${') open.push([text, start]);
        else if (text === ')' || text === ']' || text === '}') {
          const from = open.pop();
          if (line(start).trimStart().startsWith(text) && indent(start) !== indent(from?.[1] ?? start)) odd ??= from;
        }
      }
    } catch { return ''; }
    const [text, at] = odd ?? open.at(-1) ?? [], shown = text ? line(at).trim() : '';
    return text ? `: ${text} is not closed in "${shown.length > LONGEST_LINE ? shown.slice(0, LONGEST_LINE) + '…' : shown}"` : '';
  }

  function failure(error, source) {
    if (!(error instanceof SyntaxError)) return { error: 'the source is nested too deeply to be parsed', offset: null };
    const message = error.message.replace(/ \(\d+:\d+\)$/, '').replace(MODULES, MODULE) + (error.message.startsWith(ENDED) ? unclosed(source) : '');
    return { error: message.replace(INVISIBLE, (_, what, character) => `${what} U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`), offset: error.pos };
  }

  const MOST_UNREADABLE = 20;

  /** Tokens as [text, offset], templates and strings by their meaning; what can be no token is passed over. */
  function tokens(source) {
    const out = [];
    for (let from = 0, tries = 0; tries < MOST_UNREADABLE; tries++) {
      const rest = source.slice(from);
      try {
        for (const token of acorn.tokenizer(rest, OPTIONS)) {
          const value = token.type.label === 'string' || token.type.label === 'num' ? '=' + token.value : rest.slice(token.start, token.end);
          out.push([value, from + token.start]);
        }
        break;
      } catch (error) {
        if (!(error instanceof SyntaxError)) break;
        const at = Math.max(from + error.pos, out.length ? out.at(-1)[1] + 1 : 0);
        out.push([source[at], at]);
        from = at + 1;
      }
    }
    return out;
  }

  return {
    parse: (source) => Script.parse(source, { ...OPTIONS, ...EXPORTS }),
    plan(json) { try { return JSON.stringify(plan(JSON.parse(json))); } catch (error) { return JSON.stringify(failure(error, JSON.parse(json))); } },
    tokens(json) { return JSON.stringify(tokens(JSON.parse(json))); },
    /** Where TypeScript that the transform refused goes wrong, by a second parser. */
    explain(json) {
      try {
        const Parser = acorn.Parser.extend(acornTypescript.tsPlugin(), naming);
        Parser.parse(JSON.parse(json), { ...OPTIONS, sourceType: 'module', locations: true });
        return JSON.stringify({});
      } catch (error) {
        return JSON.stringify(failure(error, JSON.parse(json)));
      }
    },
  };
})()
