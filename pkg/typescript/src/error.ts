/** What the server refused, or that it did not answer. */
export class SluiceError extends Error {
  override readonly name = 'SluiceError'

  constructor(
    /** The code of the server, such as `subscription_not_found`; `unavailable` if no server answered. */
    readonly code: string,
    message: string,
    /** The status of the response; 0 if there was none. */
    readonly status = 0,
    /** What the code is about, such as the `field` at fault. */
    readonly details: Record<string, unknown> = {},
    /** The server logs the request under this id. */
    readonly requestId: string = '',
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

const codes: Record<number, string> = {
  400: 'invalid_request', 401: 'unauthenticated', 403: 'forbidden', 404: 'not_found', 409: 'conflict', 410: 'gone', 412: 'revision_mismatch',
  413: 'too_large', 422: 'unprocessable', 429: 'quota_exceeded', 502: 'unavailable', 503: 'unavailable', 504: 'unavailable',
}

/** Reads the error of a response. Other bodies, such as a proxy's page, get the code of their status. */
export async function readError(response: Response): Promise<SluiceError> {
  const text = await response.text().catch(() => '')
  const id = response.headers.get('x-request-id') ?? ''
  try {
    const { error, request_id } = JSON.parse(text) as { error: { code: string; message: string; details?: Record<string, unknown> }; request_id?: string }
    return new SluiceError(error.code, error.message, response.status, error.details, request_id ?? id)
  } catch {
    return new SluiceError(codes[response.status] ?? 'internal', `the server responded ${response.status}`, response.status, {}, id)
  }
}

/** The error of a request without a response. */
export function noResponse(url: string, cause: unknown): SluiceError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  return new SluiceError('unavailable', `no response from ${url}: ${inner instanceof Error ? inner.message : String(inner)}`, 0, {}, '', { cause })
}
