/** Typed requests to the server: paths, parameters, bodies and responses come from the OpenAPI document. */
import type { components, paths } from "./types";

type Method = "get" | "post" | "delete";

/** Paths that offer a method. */
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends PathOf<M>> = paths[P] extends Record<M, infer O> ? O : never;

type Json<T> = T extends { content: { "application/json": infer B } } ? B : never;

type ResponseBody<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 202)]> : never;

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
  const { body, signal, timeoutMs = TIMEOUT_MS } = options;
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
        ...(token ? { authorization: `Bearer ${token}` } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
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

export function get<P extends PathOf<"get">>(
  path: P,
  ...[options]: Arguments<Input<Operation<"get", P>> & RequestOptions>
): Promise<ResponseBody<Operation<"get", P>>> {
  return send("get", path, options as UntypedOptions) as Promise<ResponseBody<Operation<"get", P>>>;
}

export function post<P extends PathOf<"post">>(
  path: P,
  ...[options]: Arguments<Input<Operation<"post", P>> & RequestOptions>
): Promise<ResponseBody<Operation<"post", P>>> {
  return send("post", path, options as UntypedOptions) as Promise<ResponseBody<Operation<"post", P>>>;
}

/** Sends a DELETE request. */
export function remove<P extends PathOf<"delete">>(
  path: P,
  ...[options]: Arguments<Input<Operation<"delete", P>> & RequestOptions>
): Promise<ResponseBody<Operation<"delete", P>>> {
  return send("delete", path, options as UntypedOptions) as Promise<ResponseBody<Operation<"delete", P>>>;
}

/** Address of a resource that the browser downloads itself. */
export function urlOf<P extends PathOf<"get">>(
  path: P,
  ...[options]: Arguments<Input<Operation<"get", P>>>
): string {
  return address(path, options as UntypedOptions);
}
