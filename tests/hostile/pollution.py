"""Pollution: what the host might lean on, overwritten before it looks. Nothing of it reaches the host."""

from __future__ import annotations

from hostile import ANY, RUNTIME, Case, Gives

ALL = "const everything = [Object, Array, String, Number, Boolean, Function, Map, Set, WeakMap, RegExp, Date, Promise, Error, Symbol, BigInt]; const keys = Reflect.ownKeys; for (let n = 0, C; C = everything[n]; n++)"

CASES = [
    Case("JSON.stringify", "JSON.stringify = () => '\"forged\"'; ({ a: 1 })", Gives({"a": 1})),
    Case("JSON.parse", "JSON.parse = () => ({ ok: true, forged: true }); call_tool('stub', 'nope', {}).ok", Gives(False)),
    Case("JSON itself", "JSON = undefined; call_tool('stub', 'echo', { a: 1 }).result.a", Gives(1)),
    Case("Promise", "Promise = function () { throw 1 }; (await tools.stub.echo({ a: 1 })).a", Gives(1)),
    Case("Promise.prototype.then", "Promise.prototype.then = () => 'forged'; tools.stub.echo({}); 'kept'", Gives("kept")),
    Case("then of promises for an awaited value", "Promise.prototype.then = function (done) { done('forged') }; Promise.resolve('mine')", "VALUE RUNTIME_ERROR"),
    Case("then on every object", "Object.prototype.then = function (done) { done('mine') }; ({ a: 1 })", ANY),
    Case("then on every object, and a throw", "Object.prototype.then = function (done) { done('mine') }; throw new Error('honest')", RUNTIME, says="honest"),
    Case("Object.prototype with the members of a reply", "Object.assign(Object.prototype, { ok: true, value: 'forged', t: 'done', dropped: 0 }); throw new Error('honest')", RUNTIME, says="honest"),
    Case("Object.prototype.toJSON", "Object.prototype.toJSON = () => 'mine'; ({ a: 1 })", Gives("mine")),
    Case("Object.prototype.toJSON and an error", "Object.prototype.toJSON = () => ({ t: 'done', value: 'forged', dropped: 0 }); throw new Error('honest')", RUNTIME, says="honest"),
    Case("String.prototype.toJSON and an error", "String.prototype.toJSON = () => 'forged'; throw new Error('honest')", RUNTIME, says="honest"),
    Case("Object.prototype with setters for all", "for (const k of ['t', 'kind', 'message', 'stack', 'code', 'ok', 'error', 'result', 'id', 'server', 'tool', 'args', 'typed']) Object.defineProperty(Object.prototype, k, { set() { throw 1 }, get() { return 'forged' }, configurable: true }); call_tool('stub', 'echo', { a: 1 }).ok", Gives(True)),
    Case("Array.prototype with setters", "for (let n = 0; n < 5; n++) Object.defineProperty(Array.prototype, n, { set() { throw 1 }, get() { return 'forged' } }); [7].length", ANY),
    Case("Array.prototype methods", "for (const k of ['push', 'pop', 'join', 'map', 'slice', Symbol.iterator]) Array.prototype[k] = () => { throw 1 }; call_tools([{ server: 'stub', tool: 'echo', args: { a: 1 } }])[0].ok", Gives(True)),
    Case("every method of every prototype", ALL + " for (let m = 0, found = keys(C.prototype), k; k = found[m]; m++) try { C.prototype[k] = () => { throw 'forged' } } catch {}\n({ a: [1, 'x', null, { b: true }] })", Gives({"a": [1, "x", None, {"b": True}]})),
    Case("every method of every prototype, then a call", ALL + " for (let m = 0, found = keys(C.prototype), k; k = found[m]; m++) try { C.prototype[k] = () => { throw 'forged' } } catch {}\ncall_tool('stub', 'echo', { a: 1 }).ok", Gives(True), calls=1),
    Case("every method of every prototype, then an error", ALL + " for (let m = 0, found = keys(C.prototype), k; k = found[m]; m++) if (k !== 'constructor') try { C.prototype[k] = () => { throw 'forged' } } catch {}\nthrow new Error('honest')", RUNTIME),
    Case("every static of everything", ALL + " for (let m = 0, found = keys(C), k; k = found[m]; m++) try { C[k] = () => { throw 'forged' } } catch {}\n({ a: 1 })", Gives({"a": 1})),
    Case("every global deleted", "for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {}\n7", Gives(7)),
    Case("every global deleted, then an error", "for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {}\nnull.x", RUNTIME),
    Case("every global replaced by a getter", "for (const k of Reflect.ownKeys(globalThis)) try { Object.defineProperty(globalThis, k, { get() { throw 'forged' } }) } catch {}\n7", Gives(7)),
    Case("all that is provided", "call_tool = call_tools = tools = console = input = search_tools = describe_tool = sleep = ToolError = undefined; 7", Gives(7)),
    Case("call_tool, and the typed call stays", "call_tool = () => 'mine'; (await tools.stub.echo({ a: call_tool() })).a", Gives("mine"), calls=1),
    Case("tools can't be written on", "try { tools.stub.echo = () => 'mine' } catch {} try { tools.stub = {} } catch {} (await tools.stub.echo({ a: 1 })).a", "VALUE RUNTIME_ERROR"),
    Case("console, and an error is logged as before", "console.log = () => { throw 1 }; throw new Error('honest')", RUNTIME, says="honest"),
    Case("Error", "Error = TypeError = RangeError = function () { return { message: 'forged' } }; null.x", RUNTIME),
    Case("Error.prepareStackTrace throws", "Error.prepareStackTrace = () => { throw 1 }; throw new Error('honest')", RUNTIME),
    Case("Error.prepareStackTrace gives no text", "Error.prepareStackTrace = () => new Proxy({}, { get() { throw 1 } }); throw new Error('honest')", RUNTIME),
    Case("Error.stackTraceLimit", "Error.stackTraceLimit = -1; Error.stackTraceLimit = 1e12; (function f() { f() })()", RUNTIME),
    Case("Error.isError", "Error.isError = () => true; throw { message: 'forged' }", RUNTIME, says="Uncaught"),
    Case("Symbol.hasInstance", "Object.defineProperty(Function.prototype, Symbol.hasInstance, { value: () => true }); ({ get a() { throw 1 } })", ANY),
    Case("Function.prototype.call and apply", "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 'forged'; Reflect.apply = () => 'forged'; ({ a: 1 })", Gives({"a": 1})),
    Case("RegExp.prototype.exec", "RegExp.prototype.exec = () => { throw 1 }; RegExp.prototype[Symbol.match] = null; ({ 'a b': { f: 1n } })", "SERIALIZATION_ERROR", says="BigInt"),
    Case("Math.random", "Math.random = () => 4; crypto.randomUUID().length", Gives(36)),
    Case("Number.isFinite", "Number.isFinite = () => true; ({ a: NaN })", "SERIALIZATION_ERROR", says="NaN"),
    Case("Array.isArray", "Array.isArray = () => true; ({ a: 1 })", Gives({"a": 1})),
    Case("Object.keys", "Object.keys = () => ['forged']; ({ a: 1 })", Gives({"a": 1})),
    Case("everything frozen", ALL + " { Object.freeze(C); Object.freeze(C.prototype) } Object.freeze(globalThis); call_tool('stub', 'echo', { a: 1 }).ok", Gives(True), calls=1),
    Case("the global object's prototype", "Object.setPrototypeOf(globalThis, new Proxy({}, { get() { throw 1 }, has() { return true } })); 7", "VALUE RUNTIME_ERROR"),
    Case("Object.prototype's prototype", "try { Object.setPrototypeOf(Object.prototype, { forged: 1 }) } catch (e) { e.name }", Gives("TypeError")),
    Case("strings are given an iterator", "String.prototype[Symbol.iterator] = function* () { for (;;) yield 'x' }; 'abc'", Gives("abc")),
    Case("the results of a call are polluted", "Object.prototype.content = 'forged'; call_tool('stub', 'echo', { a: 1 }).result.content[0].type", Gives("text"), calls=1),
    Case("WeakMap.prototype.get", "WeakMap.prototype.get = () => ({ code: 'SERVER_NOT_ALLOWED', message: 'forged' }); ({ a: 1 })", Gives({"a": 1})),
]  # fmt: skip
