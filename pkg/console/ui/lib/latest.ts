// The log, newest first. The API reads it in its own order, so this asks for ranges of sequences from the end, larger ones while
// they have few events of interest.
import type * as T from '../../../typescript/src/types.js'
import { SluiceError, type Sluice } from './api.js'

interface Query {
  ns: string
  pattern?: string | undefined
  types?: string | undefined
  /** Earliest time, RFC 3339. */
  since?: string | undefined
}

const first = 200 // sequences in the first range
const growth = 8
const mostRanges = 10

/** Returns the sequence of the log's last event. */
export async function lastSequence(api: Sluice, ns: string): Promise<number> {
  return (await api.listState({ ns, limit: 1 })).seq
}

/** Returns about so many events up to a sequence, newest first, and the sequence up to which the next ones are; 0 at the end. */
export async function latest(api: Sluice, query: Query, upTo: number, want: number): Promise<{ events: T.CloudEvent[]; next: number }> {
  const { since, ...rest } = query
  const events: T.CloudEvent[] = []
  let [high, size] = [upTo, first]
  for (let range = 0; range < mostRanges && high > 0 && events.length < want; range++, size *= growth) {
    let low = Math.max(0, high - size)
    let found = await between(api, rest, low, high)
    if (!found) { // the log begins behind low
      low = 0
      found = await between(api, rest, low, high) ?? []
    }
    const fresh = since ? found.filter((e) => e.time === undefined || Date.parse(e.time) >= Date.parse(since)) : found
    events.push(...fresh.reverse())
    high = fresh.length < found.length ? 0 : low
  }
  return { events, next: high }
}

/** Returns all events of a range: behind low, up to high; undefined if events behind low are no longer stored. */
async function between(api: Sluice, query: Query, low: number, high: number): Promise<T.CloudEvent[] | undefined> {
  const events: T.CloudEvent[] = []
  let cursor: string | undefined
  do {
    const page = await api.listEvents({ ...query, since: low === 0 ? '-1' : String(low), until: String(high), limit: 1000, cursor }).catch((problem: unknown) => {
      if (problem instanceof SluiceError && problem.code === 'replay_window_exceeded') return undefined
      throw problem
    })
    if (!page) return undefined
    events.push(...page.events)
    cursor = page.next_cursor || undefined
  } while (cursor)
  return events
}
