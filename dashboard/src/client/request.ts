/** Typed requests to the server: paths, parameters, bodies and responses come from the OpenAPI document. */
import type { components, paths } from "./types";

type Method = "get" | "post" | "patch" | "delete";

/** Paths that offer a method. */
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends PathOf<M>> = paths[P] extends Record<M, infer O> ? O : never;

type Json<T> = T extends { content: { "application/json": infer B } } ? B : never;

type ResponseBody<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;

type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } }
  ? { body: B }
  : O extends { requestBody?: infer B }
    ? [Json<B>] extends [never]
      ? unknown
      : { body?: Json<B> }
    : unknown;

/** Path and query parameters and the body of an operation; keys that the document requires are required here. */
type Input<O> = Body<O> &
  (O extends { parameters: infer A } ? Present<Pick<A, keyof A & ("path" | "query")>> : unknown);

/** Without the keys whose value is `never`. */
type Present<T> = { [K in keyof T as [Exclude<T[K], undefined>] extends [never] ? never : K]: T[K] };

interface RequestOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** The options may be left out where an operation requires no parameters. */
type Arguments<T> = Record<never, never> extends T ? [options?: T] : [options: T];

interface UntypedOptions extends RequestOptions {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  /** A file to send as it is, instead of a JSON body. */
  file?: { content: Blob; type: string };
}

type Problem = components["schemas"]["Problem"];

export class ApiError extends Error {
  override name = "ApiError";

  constructor(
    readonly status: number,
    message: string,
    readonly path: string,
    readonly code: string,
    readonly requestId: string | null = null,
    readonly fields: Problem["fields"] = [],
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

const TIMEOUT_MS = 15_000;

/** The token of a protected server, given once as `#token=` in the address and kept for the tab only. */
export function apiToken(): string | null {
  try {
    return sessionStorage.getItem("hs.token");
  } catch {
    return null;
  }
}

function address(template: string, { path = {}, query = {} }: UntypedOptions = {}): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(path[key])));
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return text ? `${filled}?${text}` : filled;
}

async function failure(response: Response, path: string): Promise<ApiError> {
  let error: Partial<Problem> = {};
  try {
    error = ((await response.json()) as Partial<components["schemas"]["ErrorBody"]>).error ?? {};
  } catch {
    // A proxy or a crash responds without a JSON body; the status is still known.
  }
  return new ApiError(
    response.status,
    error.message ?? `the server answered ${response.status} ${response.statusText}`.trim(),
    path,
    error.code ?? "internal",
    error.id ?? response.headers.get("x-request-id"),
    error.fields ?? [],
    error.hint ?? null,
  );
}

async function send(method: Method, template: string, options: UntypedOptions = {}): Promise<unknown> {
  const { body, file, signal, timeoutMs = TIMEOUT_MS } = options;
  const url = address(template, options);
  const token = apiToken();
  const limit = AbortSignal.timeout(timeoutMs);
  let response: Response;
  try {
    response = await fetch(url, {
      method: method.toUpperCase(),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(file ? { "content-type": file.type } : {}),
        ...(token ? { authorization: `Bearer ${token}` } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(file ? { body: file.content } : {}),
      // A deletion that is sent while the page closes still arrives.
      keepalive: method === "delete",
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(
      0,
      limit.aborted ? "the server took too long to answer" : "the server cannot be reached",
      url,
      "unreachable",
    );
  }
  if (!response.ok) throw await failure(response, url);
  try {
    return await response.json();
  } catch {
    throw new ApiError(response.status, "the answer is not valid JSON", url, "malformed");
  }
}

/** Sends requests of one method. */
const sender =
  <M extends Method>(method: M) =>
  <P extends PathOf<M>>(
    path: P,
    ...[options]: Arguments<Input<Operation<M, P>> & RequestOptions>
  ): Promise<ResponseBody<Operation<M, P>>> =>
    send(method, path, options as UntypedOptions) as Promise<ResponseBody<Operation<M, P>>>;

export const get = sender("get");
export const post = sender("post");
export const patch = sender("patch");
export const remove = sender("delete");

/** Sends a file as the body of a POST request. */
export function upload<P extends PathOf<"post">>(
  path: P,
  file: { content: Blob; type: string },
  query: UntypedOptions["query"],
  options: RequestOptions = {},
): Promise<ResponseBody<Operation<"post", P>>> {
  return send("post", path, { ...options, file, query }) as Promise<ResponseBody<Operation<"post", P>>>;
}

/** Reads a file that the server computes; `onBytes` gets the bytes so far and in all. */
export async function fetchFile<P extends PathOf<"get">>(
  path: P,
  options: Input<Operation<"get", P>> & RequestOptions,
  onBytes: (done: number, all: number | null) => void,
): Promise<Blob> {
  const url = address(path, options as UntypedOptions);
  const token = apiToken();
  const response = await fetch(url, {
    ...(options.signal ? { signal: options.signal } : {}),
    headers: token ? { authorization: `Bearer ${token}` } : {},
  });
  if (!response.ok || !response.body) throw await failure(response, url);
  const all = Number(response.headers.get("content-length")) || null;
  const parts: BlobPart[] = [];
  let done = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done: ended, value } = await reader.read();
    if (ended) break;
    parts.push(value);
    done += value.length;
    onBytes(done, all);
  }
  return new Blob(parts, { type: response.headers.get("content-type") ?? "" });
}

/** Address of a resource that the browser downloads itself. */
export function urlOf<P extends PathOf<"get">>(
  path: P,
  ...[options]: Arguments<Input<Operation<"get", P>>>
): string {
  return address(path, options as UntypedOptions);
}
