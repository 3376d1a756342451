// What a feed sends, and how to follow one for as long as it takes: with a new ticket for each connection, behind
// what was shown last, and ever more slowly while there is no server. How a connection is made is for eventsource.ts and
// websocket.ts.

/** What POST /v1/namespaces/{ns}/feed/tickets answers. */
export interface Ticket {
  ticket: string
  expires_at: string
  url: string
}

export interface CloudEvent {
  id: string
  type: string
  source: string
  path: string
  time?: string
  data?: unknown
  [attribute: string]: unknown
}

/** An event, or the one that stands for several. */
export interface Shown {
  seq: number
  event: CloudEvent
  coalesced?: number
  resume?: number
}

/** What a reader missed that was too slow: the events between the one before and that of oldest_available_seq. */
export interface Lagged {
  missed_count: number
  oldest_available_seq: number
  current_seq: number
}

export interface Refusal {
  code: string
  message: string
  details?: Record<string, unknown>
}

export type Frame =
  | { subscribed: true; current_seq: number }
  | Shown
  | { lagged: Lagged }
  | { heartbeat: { seq: number } }
  | { error: Refusal }

export interface Feed {
  /** Gets a new ticket, most often from the page's own server. It throws Refused if there is none to be had. */
  ticket: () => Promise<Ticket>
  /** What to show: pattern, types, coalesce_labels, … */
  query?: Record<string, string> | [string, string][]
  /** Behind which event to begin; without it, with what comes from now on. */
  since?: string
  onEvent: (shown: Shown) => void
  onLagged?: (lagged: Lagged) => void
  /** There is a connection, or there is none; another one is about to be made. */
  onLive?: () => void
  onAway?: (problem: unknown) => void
  /** The feed is over, and will not come back. */
  onEnd?: (why: Refusal) => void
}

export class Refused extends Error {
  constructor(readonly why: Refusal) {
    super(`${why.code}: ${why.message}`)
  }
}

/** Takes a frame, with its id where there is one. */
export type Take = (frame: Frame, id?: string) => void

/** Makes one connection, calls take for each frame and end when nothing more will come, and returns what closes it. */
export type Connect = (url: string, take: Take, end: () => void) => () => void

/** Asks a server for a ticket, by whoever has the token. */
export async function askForTicket(server: string, namespace: string, token: string): Promise<Ticket> {
  const response = await fetch(`${server}/v1/namespaces/${namespace}/feed/tickets`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  })
  const body = (await response.json()) as Ticket & { error: Refusal }
  if (!response.ok) throw new Refused(body.error)
  return body
}

const soonest = 100 // milliseconds
const latest = 5000

/** Shows a feed until the function that is returned is called, or the server says that it is over. */
export function follow(feed: Feed, connect: Connect): () => void {
  const stop = new AbortController()
  void run(feed, connect, stop.signal)
  return () => stop.abort()
}

async function run(feed: Feed, connect: Connect, signal: AbortSignal): Promise<void> {
  let place = feed.since
  let wait = soonest
  const take = (frame: Frame, id?: string): void => {
    if ('subscribed' in frame) {
      wait = soonest
      feed.onLive?.()
    }
    if ('event' in frame) feed.onEvent(frame)
    if ('lagged' in frame) feed.onLagged?.(frame.lagged)
    place = id || placeAfter(frame, place)
  }
  while (!signal.aborted) {
    const problem = await connection(feed, connect, place, take, signal).catch((problem: unknown) => problem)
    if (signal.aborted) return
    if (problem instanceof Refused && isFinal(problem.why)) {
      feed.onEnd?.(problem.why)
      return
    }
    feed.onAway?.(problem)
    await until(signal, (done) => {
      const timer = setTimeout(done, wait * (0.5 + Math.random() / 2))
      return () => clearTimeout(timer)
    })
    wait = Math.min(2 * wait, latest)
  }
}

/** Returns where to go on behind a frame. */
function placeAfter(frame: Frame, place?: string): string | undefined {
  if ('event' in frame) return String(frame.resume ?? frame.seq)
  if ('heartbeat' in frame) return String(frame.heartbeat.seq)
  if ('subscribed' in frame && (place === undefined || place === 'now')) return String(frame.current_seq)
  return place
}

/** Makes a connection, and takes what comes until it ends. */
async function connection(feed: Feed, connect: Connect, place: string | undefined, take: Take, signal: AbortSignal): Promise<void> {
  const url = address(await feed.ticket(), feed, place)
  let heard = false
  await until(signal, (done, fail) => {
    const close = connect(url, (frame, id) => {
      heard = true
      if ('error' in frame) {
        fail(new Refused(frame.error))
        close()
      } else {
        take(frame, id)
      }
    }, done)
    return close
  })
  if (!heard && !signal.aborted) await ask(url)
}

function address(ticket: Ticket, feed: Feed, place?: string): string {
  const url = new URL(ticket.url)
  for (const [name, value] of new URLSearchParams(feed.query)) url.searchParams.append(name, value)
  if (place !== undefined) url.searchParams.set('since', place)
  return url.href
}

/** Asks an address that did not open why: neither EventSource nor WebSocket says so. */
async function ask(url: string): Promise<void> {
  const enough = new AbortController()
  try {
    const response = await fetch(url, { signal: enough.signal })
    if (!response.ok) throw new Refused(((await response.json()) as { error: Refusal }).error)
  } finally {
    enough.abort()
  }
}

/** Says whether asking again is in vain. A ticket that has expired is replaced. */
function isFinal(why: Refusal): boolean {
  return !['unavailable', 'quota_exceeded', 'internal'].includes(why.code) && why.details?.['reason'] !== 'expired'
}

/** Waits for something to be done, which begin starts and returns how to stop, or for the signal. */
function until(signal: AbortSignal, begin: (done: () => void, fail: (problem: unknown) => void) => () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return resolve()
    const over = (): void => signal.removeEventListener('abort', abort)
    const stop = begin(() => (over(), resolve()), (problem) => (over(), reject(problem)))
    const abort = (): void => (stop(), resolve())
    signal.addEventListener('abort', abort, { once: true })
  })
}
