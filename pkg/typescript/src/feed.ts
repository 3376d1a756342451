import type { Args, Options } from './client.js'
import { SluiceError, noResponse } from './error.js'
import { pause } from './pause.js'

/** A frame of a feed, and the place to resume after it: `since` of another feed. */
export interface Frame<F> {
  id: string
  data: F
}

type Open = (query: Args, place: string | undefined, signal: AbortSignal) => Promise<Response>
type Content = { subscribed?: true; incarnation?: string; error?: { code: string; message: string; details?: Record<string, unknown> } }

const silence = 90_000 // a server sends something every 15 s
const soonest = 100
const latest = 5000

/**
 * Yields the frames of a feed over as many connections as it takes, each once. A lost connection is
 * opened again behind the last frame; the first one is tried as often as other calls. It throws what
 * the server refuses.
 */
export async function* follow<F>(open: Open, args: Args, retries: number, options: Options): AsyncGenerator<Frame<F>, void, undefined> {
  const query = { ...args }
  let place = args['since'] as string | undefined
  let connected = false
  let wait = soonest
  for (let tries = 0; ; tries++) {
    let away: SluiceError
    try {
      for await (const { id, text } of connection(open, query, place, options.signal)) {
        place = id ?? place
        if (text === '') continue
        const data = JSON.parse(text) as Content
        if (data.error) throw new SluiceError(data.error.code, data.error.message, 0, data.error.details)
        if (data.subscribed) {
          connected = true
          wait = soonest
          if (data.incarnation !== undefined) query['incarnation'] = data.incarnation // of the log that the place is of
        }
        yield { id: place ?? '', data: data as F }
      }
      away = new SluiceError('unavailable', 'the feed was interrupted')
    } catch (problem) {
      if (options.signal?.aborted) throw options.signal.reason
      if (!(problem instanceof SluiceError)) throw problem
      away = problem
    }
    const mayReturn = away.code === 'unavailable' || (away.code === 'quota_exceeded' && connected)
    if (!mayReturn || (!connected && tries >= retries)) throw away
    options.onAway?.(away)
    await pause(wait, options.signal)
    wait = Math.min(2 * wait, latest)
  }
}

/** Reads one connection to its end. A comment or a heartbeat has an id, and no text. */
async function* connection(open: Open, query: Args, place: string | undefined, signal: AbortSignal | undefined): AsyncGenerator<{ id: string | undefined; text: string }> {
  const over = new AbortController()
  const abort = (): void => over.abort(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  const quiet = (): void => over.abort(new SluiceError('unavailable', `the server was silent for ${silence / 1000} s`))
  let timer = setTimeout(quiet, silence)
  try {
    const response = await open(query, place, over.signal)
    let id: string | undefined
    let text = ''
    for await (const line of lines(response, over.signal)) {
      clearTimeout(timer)
      timer = setTimeout(quiet, silence)
      const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
      if (name === 'id') id = value
      if (name === 'data') text += value
      if (line !== '') continue
      yield { id, text }
      text = ''
    }
  } catch (problem) {
    throw over.signal.aborted ? over.signal.reason : problem
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
    over.abort()
  }
}

/** Yields the whole lines of a response until the signal; the rest of a line that was cut off is dropped. */
async function* lines(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  // The signal of fetch does not end the body in Node 20 once the request is garbage.
  signal.addEventListener('abort', () => void reader.cancel().catch(() => undefined), { once: true })
  const decoder = new TextDecoder()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read().catch((cause: unknown) => {
      throw noResponse(response.url, cause)
    })
    signal.throwIfAborted()
    if (done) return
    const all = (rest + decoder.decode(value, { stream: true })).split('\n')
    rest = all.pop() ?? ''
    for (const line of all) yield line.replace(/\r$/, '')
  }
}
