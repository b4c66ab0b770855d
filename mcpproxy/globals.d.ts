/** The input of this run; the parameter, where the whole script is one function. */
declare const input: { [name: string]: any };

declare namespace Mcp {
  /** A tool's result as it came; the members of its data can be read from it, too. */
  interface Result {
    content?: any[];
    structuredContent?: any;
    [member: string]: any;
  }
  interface Failure {
    ok: false;
    error: { code: string; message: string; retryable: boolean; retry_after_ms?: number; result?: Result };
  }
  /** Content and data of the result can be read from the envelope, too. */
  type Envelope = ({ ok: true; result: Result } & { [member: string]: any }) | Failure;
  interface Request {
    server: string;
    tool: string;
    args?: object;
  }
  interface Hit {
    name: string;
    description: string;
    signature: string;
  }
  interface Found {
    tools: Hit[];
    /** How many more there are. */
    more: number;
    hint?: string;
    not_searched?: string[];
    kept_code?: { kind: "code"; cache_id: string; description: string; params: string[] }[];
  }
  interface Parameter {
    name: string;
    type: string;
    required: boolean;
    default?: unknown;
    description?: string;
  }
  interface Description {
    name: string;
    description: string;
    declaration: string;
    call: string;
    parameters: Parameter[];
    returns: string;
    annotations?: { [hint: string]: unknown };
  }
}

/** Call a tool and wait for it. Never throws. */
declare function call_tool(server: string, tool: string, args: object): Mcp.Envelope;
/** Call up to 100 tools, some at the same time, and wait for all. One envelope each, in order. */
declare function call_tools(requests: Mcp.Request[], options?: { max_parallel?: number } | null): Mcp.Envelope[];
/** Find tools by what they do. Costs no call. */
declare function search_tools(query: string, options?: { limit?: number; server?: string }): Promise<Mcp.Found>;
/** What a tool takes and gives. Costs no call. */
declare function describe_tool(name: string, tool?: string): Promise<Mcp.Description>;
/** Wait; the deadline goes on. */
declare function sleep(milliseconds: number): Promise<void>;

/** What a call of `tools` throws. */
declare class ToolError extends Error {
  private constructor();
  readonly code: string;
  readonly server: string;
  readonly tool: string;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  readonly retry_after_ms?: number;
  /** What the tool gave, where it reported the error itself. */
  readonly result?: Mcp.Result;
}

/** Comes back in `logs`. */
declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  trace(...values: unknown[]): void;
  dir(value: unknown): void;
  table(value: unknown): void;
  assert(held?: unknown, ...values: unknown[]): void;
  group(...values: unknown[]): void;
  groupEnd(): void;
  count(label?: string): void;
  countReset(label?: string): void;
  time(label?: string): void;
  timeLog(label?: string): void;
  timeEnd(label?: string): void;
};

declare function structuredClone<T>(value: T): T;
declare function queueMicrotask(callback: () => void): void;
declare function atob(data: string): string;
declare function btoa(data: string): string;
declare const performance: { now(): number };
declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
};

declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: "utf-8";
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(bytes?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}
declare class URLSearchParams {
  constructor(init?: string | Iterable<[string, string]> | { [name: string]: string });
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, all: URLSearchParams) => void): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}
declare class URL {
  static canParse(url: string, base?: string): boolean;
  static parse(url: string, base?: string): URL | null;
  constructor(url: string | URL, base?: string | URL);
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}
