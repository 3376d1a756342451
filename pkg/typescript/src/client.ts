import { SluiceError, noResponse, readError } from './error.js'
import { type Frame, follow } from './feed.js'
import { Operations } from './operations.js'
import { pause } from './pause.js'

export interface Config {
  /** The address of the server, such as `http://127.0.0.1:8080`. */
  url: string
  /** The root token, or that of a grant. */
  token?: string
  /** How often a call is repeated while the server cannot be reached or answers 503; default 4. */
  retries?: number
  /** Sends the requests; default: the global fetch. */
  fetch?: typeof globalThis.fetch
}

export interface Options {
  /** Ends the call, such as `AbortSignal.timeout(10_000)`. */
  signal?: AbortSignal | undefined
  /** Further headers, such as the `ce-…` of an event in binary mode. */
  headers?: Record<string, string>
  /** Of a feed: the connection was lost, and is about to be opened again. */
  onAway?: (error: SluiceError) => void
}

/** Arguments of an operation by name. Those that its path does not have are query parameters or headers. */
export type Args = Record<string, unknown>
export type { Frame }

/**
 * A client of one server. Its methods are the operations of the API. They return what the server
 * responded, and throw SluiceError.
 *
 * Calls are repeated while no server answers, or it answers 503: all but POST, and those with an
 * `idempotency_key` or a `producer_id`. A refused connection is always tried again.
 */
export class Sluice extends Operations {
  readonly url: string
  readonly #config: Config

  constructor(config: Config) {
    super()
    this.url = config.url.replace(/\/+$/, '')
    this.#config = config
  }

  protected async call<R>(method: string, path: string, args: Args, headers: string[], options: Options): Promise<R> {
    const response = await this.whole(method, path, args, headers, options)
    const text = await response.text().catch((cause: unknown) => {
      throw noResponse(this.url, cause)
    })
    return (text === '' ? undefined : JSON.parse(text)) as R
  }

  protected async whole(method: string, path: string, args: Args, headers: string[], options: Options): Promise<Response> {
    const request = this.#request(method, path, args, headers, options)
    for (let attempt = 0; ; attempt++) {
      const response = await this.#send(request.url, request.init).catch((problem: SluiceError) => problem)
      if (response instanceof Response && response.ok) return response
      const problem = response instanceof Response ? await readError(response) : response
      if (attempt >= (this.#config.retries ?? 4) || !(isRefused(problem) || (request.repeatable && [0, 503].includes(problem.status)))) throw problem
      await pause(100 * 2 ** attempt, options.signal)
    }
  }

  protected frames<F>(path: string, args: Args, options: Options): AsyncGenerator<Frame<F>, void, undefined> {
    const open = async (query: Args, place: string | undefined, signal: AbortSignal): Promise<Response> => {
      const headers = { accept: 'text/event-stream', ...options.headers, ...(place === undefined ? {} : { 'last-event-id': place }) }
      const { url, init } = this.#request('GET', path, query, [], { headers, signal })
      const response = await this.#send(url, init)
      if (!response.ok) throw await readError(response)
      return response
    }
    return follow<F>(open, args, this.#config.retries ?? 4, options)
  }

  #request(method: string, path: string, args: Args, headers: string[], options: Options): { url: string; init: RequestInit; repeatable: boolean } {
    const { body, ...rest } = args
    const header = new Headers(options.headers)
    if (this.#config.token && !header.has('authorization')) header.set('authorization', `Bearer ${this.#config.token}`)
    for (const name of headers) {
      const value = take(rest, name.toLowerCase().replaceAll('-', '_'))
      if (value !== undefined) header.set(name, String(value))
    }
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => inPath(name, take(rest, name)))
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(rest)) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(name, String(one))
    }
    const init: RequestInit = { method, headers: header, redirect: 'error', ...(options.signal ? { signal: options.signal } : {}) }
    if (body !== undefined) {
      const isRaw = typeof body === 'string' || body instanceof Uint8Array
      init.body = isRaw ? (body as BodyInit) : JSON.stringify(body)
      if (!isRaw && !header.has('content-type')) header.set('content-type', 'application/json')
    }
    return {
      url: `${this.url}${filled}${query.size > 0 ? `?${query}` : ''}`, init,
      repeatable: method !== 'POST' || header.has('idempotency-key') || header.has('producer-id'),
    }
  }

  async #send(url: string, init: RequestInit): Promise<Response> {
    const send = this.#config.fetch ?? globalThis.fetch
    return send(url, init).catch((cause: unknown) => {
      if (init.signal?.aborted) throw init.signal.reason
      throw noResponse(this.url, cause)
    })
  }
}

function take(args: Args, name: string): unknown {
  const value = args[name]
  delete args[name]
  return value
}

/** Writes a name as a part of a path. A `path` has parts of its own. */
function inPath(name: string, value: unknown): string {
  const parts = name === 'path' ? String(value).replace(/^\//, '').split('/') : [String(value)]
  if (value === undefined || parts.includes('')) throw new SluiceError('invalid_request', `${name} is empty; set it`, 0, { field: name })
  return parts.map((part) => encodeURIComponent(part)).join('/')
}

function isRefused(problem: SluiceError): boolean {
  const cause = problem.cause instanceof Error ? problem.cause.cause : undefined
  return problem.status === 0 && cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED'
}
