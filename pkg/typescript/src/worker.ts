import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Sluice } from './client.js'
import { SluiceError } from './error.js'
import { pause } from './pause.js'
import { type RequestHeaders, SignatureError, checkSecrets, verify } from './webhook.js'

/** What a worker is told: which streams have news, and where it stopped reading them. */
export interface Notice {
  consumer_id: string
  epoch: number
  wake_id: string
  primary_stream: string
  streams: { path: string; offset: string }[]
  triggered_by: string[]
  callback: string
  token: string
}

/** News of one stream. */
export interface Batch {
  notice: Notice
  path: string
  /** The messages of a stream of JSON; undefined for another content type. */
  messages: unknown[] | undefined
  /** What was read, as it is. */
  bytes: Uint8Array
  /** Is aborted when the wake is over: another worker has the work. */
  signal: AbortSignal
}

export interface WorkerConfig {
  /** The secret of the subscription; several during a rotation. */
  secret: string | readonly string[]
  /** Processes news. When it returns, they are acknowledged; when it throws, they come again. */
  handle: (batch: Batch) => Promise<void> | void
  /** How many wakes are worked on at once; further notices are answered with 503, and come again. Default 100. */
  concurrency?: number
  /** Milliseconds between reports that keep the claim while handle runs. Default 15,000: a third of the time after which the server wakes another worker. */
  heartbeat?: number
  /** What handle threw, or why reading or acknowledging failed. The server wakes the worker again. */
  onError?: (error: unknown, notice: Notice) => void
}

const lease = 45_000 // the server wakes another worker after this time without a callback
const largest = 4 << 20 // bytes of a notice

/** Works for a subscription of mode `wake`: verifies notices, claims, reads, acknowledges, and keeps the claim while handle runs. */
export class Worker {
  readonly #sluice: Sluice
  readonly #config: WorkerConfig
  readonly #secrets: readonly string[]
  readonly #running = new Map<string, Promise<void>>()

  /** sluice reads the streams: its token needs `read`. Throws TypeError for an empty secret. */
  constructor(sluice: Sluice, config: WorkerConfig) {
    this.#sluice = sluice
    this.#config = config
    this.#secrets = typeof config.secret === 'object' ? config.secret : [config.secret]
    checkSecrets(this.#secrets)
  }

  /** Takes a request and returns the status to answer with: 202, and the work has begun; 401, or 503. */
  receive(body: Uint8Array | string, headers: RequestHeaders): 202 | 401 | 503 {
    try {
      verify(body, headers, { scheme: 't-sha256', keys: this.#secrets })
    } catch (problem) {
      if (problem instanceof SignatureError) return 401
      throw problem
    }
    const notice = JSON.parse(typeof body === 'string' ? body : new TextDecoder().decode(body)) as Notice
    if (this.#running.has(notice.wake_id)) return 202
    if (this.#running.size >= (this.#config.concurrency ?? 100)) return 503
    const work = this.#work(notice).catch((problem: unknown) => {
      if (!isOver(problem)) this.#config.onError?.(problem, notice)
    }).finally(() => this.#running.delete(notice.wake_id))
    this.#running.set(notice.wake_id, work)
    return 202
  }

  /** A listener of node:http: `createServer(worker.listener)`. */
  readonly listener = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > largest) request.destroy()
    })
    request.on('end', () => response.writeHead(this.receive(Buffer.concat(chunks), request.headers)).end())
  }

  /** Waits until the work that has begun is done. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  async #work(notice: Notice): Promise<void> {
    const claim = new Claim(notice)
    const { streams } = await claim.report({ wake_id: notice.wake_id })
    for (const { path, offset } of streams) await this.#read(claim, path, offset)
    await claim.report({ done: true })
  }

  /** Reads a stream to its end. Each page is acknowledged when it is processed. */
  async #read(claim: Claim, path: string, from: string): Promise<void> {
    const [, ns = ''] = /\/callback\/([^/]+)\//.exec(claim.notice.callback) ?? []
    for (let offset = from, isLast = false; !isLast;) {
      const response = await this.#sluice.readStream({ ns: decodeURIComponent(ns), path, offset })
      const bytes = new Uint8Array(await response.arrayBuffer())
      const next = response.headers.get('stream-next-offset') ?? offset
      isLast = response.headers.has('stream-up-to-date') || next === offset
      if (next === offset) return
      const isJSON = response.headers.get('content-type')?.startsWith('application/json') ?? false
      const messages = isJSON ? (JSON.parse(new TextDecoder().decode(bytes)) as unknown[]) : undefined
      await claim.keep((signal) => this.#config.handle({ notice: claim.notice, path, messages, bytes, signal }), this.#config.heartbeat ?? 15_000)
      await claim.report({ acks: [{ path, offset: next }] })
      offset = next
    }
  }
}

interface Reply {
  ok: boolean
  token?: string
  streams: Notice['streams']
  error?: { code: string; message: string }
}

/** The claim of a wake: its callbacks, with the token that is current. */
class Claim {
  readonly notice: Notice
  #token: string

  constructor(notice: Notice) {
    this.notice = notice
    this.#token = notice.token
  }

  /** Reports until the server has answered, for as long as the claim can last. */
  async report(body: Record<string, unknown>): Promise<Reply> {
    const end = Date.now() + lease
    for (let wait = 100; ; wait = Math.min(2 * wait, 2000)) {
      const [status, reply] = await this.#send(body)
      this.#token = reply.token ?? this.#token
      if (reply.ok) return reply
      const { code, message } = reply.error ?? { code: 'internal', message: `the server responded ${status}` }
      const again = [0, 502, 503, 504].includes(status) || (code === 'TOKEN_EXPIRED' && reply.token !== undefined)
      if (!again || Date.now() > end) throw new SluiceError(code, message, status)
      await pause(wait)
    }
  }

  async #send(body: Record<string, unknown>): Promise<[number, Reply]> {
    try {
      const response = await fetch(this.notice.callback, {
        method: 'POST',
        headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ epoch: this.notice.epoch, ...body }),
        redirect: 'error',
        signal: AbortSignal.timeout(lease),
      })
      return [response.status, await response.json().catch(() => ({ ok: false })) as Reply]
    } catch (cause) {
      return [0, { ok: false, streams: [], error: { code: 'unavailable', message: `no response from ${this.notice.callback}: ${String(cause)}` } }]
    }
  }

  /** Keeps the claim while something runs. Its signal says that the claim is lost. */
  async keep(run: (signal: AbortSignal) => Promise<void> | void, heartbeat: number): Promise<void> {
    const lost = new AbortController()
    const timer = setInterval(() => {
      this.report({}).catch((problem: unknown) => lost.abort(problem))
    }, heartbeat)
    try {
      await run(lost.signal)
    } finally {
      clearInterval(timer)
    }
  }
}

/** Says whether a claim is over without a fault of the worker. */
function isOver(problem: unknown): boolean {
  return problem instanceof SluiceError && ['STALE_EPOCH', 'ALREADY_CLAIMED', 'CONSUMER_GONE'].includes(problem.code)
}
