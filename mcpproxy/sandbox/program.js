// How a source becomes a program that gives a value, worked out on its syntax tree (by acorn, in a
// context of its own that no script ever shares).
//
// A script gives its value by a top-level `return`, or as its completion value, and may use
// top-level `await`. What `eval` does not take is wrapped in a function in which each statement
// that has a completion value assigns it to a variable, as ECMA-262 prescribes with UpdateEmpty.
// Nothing of the source is rewritten: text is only inserted, so every position can be mapped back.
(function () {
  'use strict';
  const OPTIONS = { ecmaVersion: 'latest', sourceType: 'script', allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true, allowHashBang: true, allowSuperOutsideMethod: false };

  const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
  const LISTS = new Set(['Program', 'BlockStatement', 'SwitchCase', 'StaticBlock']);
  const EMPTIES = new Set(['IfStatement', 'ForStatement', 'ForInStatement', 'ForOfStatement', 'WhileStatement', 'DoWhileStatement', 'SwitchStatement', 'TryStatement', 'WithStatement', 'LabeledStatement']);

  /** Whether top-level code has a return, or an await that belongs to no function. */
  function uses(program) {
    const found = { returns: false, awaits: false };
    const todo = [program];
    while (todo.length) {
      const node = todo.pop();
      if (node.type === 'ReturnStatement') found.returns = true;
      else if (node.type === 'AwaitExpression' || node.type === 'ForOfStatement' && node.await) found.awaits = true;
      else if (node.type === 'VariableDeclaration' && node.kind === 'await using') found.awaits = true;
      if (FUNCTIONS.has(node.type)) continue;
      for (const key in node) {
        const value = node[key];
        // What a class computes while it is defined is top-level code; its methods are functions.
        if (Array.isArray(value)) { for (const item of value) if (item && typeof item.type === 'string') todo.push(item); }
        else if (value && typeof value.type === 'string') todo.push(value);
      }
    }
    return found;
  }

  /** Insertions [offset, text] that keep the completion value of `node` in `name`. */
  function completions(source, node, name, out, parent) {
    if (EMPTIES.has(node.type) && parent && LISTS.has(parent.type)) out.push([node.start, name + '=void 0;']);
    switch (node.type) {
      case 'ExpressionStatement': {
        if (node.directive !== undefined) return;
        out.push([node.start, name + '=(']);
        out.push([source[node.end - 1] === ';' ? node.end - 1 : node.end, ')']);
        return;
      }
      case 'Program': case 'BlockStatement': for (const each of node.body) completions(source, each, name, out, node); return;
      case 'IfStatement': completions(source, node.consequent, name, out, node); if (node.alternate) completions(source, node.alternate, name, out, node); return;
      case 'ForStatement': case 'ForInStatement': case 'ForOfStatement': case 'WhileStatement': case 'DoWhileStatement': case 'WithStatement': case 'LabeledStatement':
        completions(source, node.body, name, out, node); return;
      case 'SwitchStatement': for (const each of node.cases) for (const inner of each.consequent) completions(source, inner, name, out, each); return;
      case 'TryStatement':      // a finally block that ends normally has no say in the value
        completions(source, node.block, name, out, node);
        if (node.handler) completions(source, node.handler.body, name, out, node);
    }
  }

  const callable = (node) => (node.type === 'ArrowFunctionExpression' || node.type === 'FunctionExpression' || node.type === 'FunctionDeclaration') && !node.generator;

  /** The function that is all there is to a source, if it is one. */
  function lone(program) {
    if (program.body.length !== 1 && !(program.body.length === 2 && program.body[1].type === 'EmptyStatement')) return undefined;
    const [only] = program.body;
    if (only.type === 'FunctionDeclaration' && callable(only)) return 'declaration';
    return only.type === 'ExpressionStatement' && callable(only.expression) ? 'expression' : undefined;
  }

  function plan(source) {
    let program;
    try {
      program = acorn.parse(source, OPTIONS);
    } catch (error) {
      // `function (input) { ... }` is no statement, yet plainly the whole source.
      if (!/^\s*(?:\/\/[^\n]*\n\s*|\/\*[^]*?\*\/\s*)*(?:async\s+)?function\b/.test(source)) throw error;
      try {
        if (lone(acorn.parse('(' + source + '\n)', OPTIONS)) !== 'expression') throw error;
      } catch { throw error; }
      return { mode: 'function', insert: [[0, '('], [source.length, '\n)']] };
    }
    const function_ = lone(program);
    if (function_) {
      const trailing = program.body[0].type === 'ExpressionStatement' && source[program.body[0].end - 1] === ';';
      const end = trailing ? program.body[0].end - 1 : program.body[0].end;
      return { mode: 'function', insert: [[program.body[0].start, '('], [end, ')']] };
    }
    const found = uses(program);
    if (!found.returns && !found.awaits) return { mode: 'plain', insert: [] };
    let name = '$completion';
    while (source.includes(name)) name += '$';
    const insert = [[0, (found.awaits ? '(async function(' : '(function(') + name + '){']];
    completions(source, program, name, insert);
    insert.push([source.length, '\nreturn ' + name + '\n})']);
    return { mode: 'wrapped', insert };
  }

  const failure = (error) => ({ error: error instanceof SyntaxError ? error.message.replace(/ \(\d+:\d+\)$/, '') : 'the source is nested too deeply to be parsed', offset: error.pos });

  /** Tokens as [text, offset], templates and strings by their meaning, for as far as they can be read. */
  function tokens(source) {
    const out = [];
    try {
      for (const token of acorn.tokenizer(source, OPTIONS)) {
        const value = token.type.label === 'string' || token.type.label === 'num' ? '=' + token.value : source.slice(token.start, token.end);
        out.push([value, token.start]);
      }
    } catch { /* as far as it goes */ }
    return out;
  }

  return {
    plan(json) { try { return JSON.stringify(plan(JSON.parse(json))); } catch (error) { return JSON.stringify(failure(error)); } },
    tokens(json) { return JSON.stringify(tokens(JSON.parse(json))); },
    /** Where TypeScript that the transform refused goes wrong, by a second parser. */
    explain(json) {
      try {
        const Parser = acorn.Parser.extend(acornTypescript.tsPlugin());
        Parser.parse(JSON.parse(json), { ...OPTIONS, sourceType: 'module', locations: true });
        return JSON.stringify({});
      } catch (error) {
        return JSON.stringify(failure(error));
      }
    },
  };
})()
