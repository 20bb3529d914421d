/** One way to ask the server: JSON in, JSON out, the error body turned into an `ApiError` that says what to do. */
export interface ErrorField {
  field: string;
  allowed?: string | null;
  got?: unknown;
}

export class ApiError extends Error {
  override name = "ApiError";

  constructor(
    readonly status: number,
    message: string,
    readonly path: string,
    readonly code: string,
    readonly requestId: string | null = null,
    readonly fields: readonly ErrorField[] = [],
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

interface ErrorBody {
  error?: { id?: string; code?: string; message?: string; fields?: ErrorField[]; hint?: string | null };
}

const METHOD_TIMEOUT_MS = 15_000;

/** The token of a protected server, given once as `#token=` in the address and kept for the tab only. */
export function apiToken(): string | null {
  try {
    return sessionStorage.getItem("hs.token");
  } catch {
    return null;
  }
}

export interface Ask {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  query?: Record<string, string | number | boolean | null | undefined>;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  timeoutMs?: number;
}

export function address(path: string, query: Ask["query"] = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}

async function failure(response: Response, path: string): Promise<ApiError> {
  let body: ErrorBody = {};
  try {
    body = (await response.json()) as ErrorBody;
  } catch {
    // A proxy or a crash answers without our body; the status still says enough.
  }
  const error = body.error ?? {};
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

export async function ask<T>(path: string, options: Ask = {}): Promise<T> {
  const { method = "GET", body, query, signal, headers = {}, timeoutMs = METHOD_TIMEOUT_MS } = options;
  const url = address(path, query);
  const token = apiToken();
  const limit = AbortSignal.timeout(timeoutMs);
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token ? { authorization: `Bearer ${token}` } : {}),
        ...headers,
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
    return (await response.json()) as T;
  } catch {
    throw new ApiError(response.status, "the answer is not valid JSON", url, "malformed");
  }
}
