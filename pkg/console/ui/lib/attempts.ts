// Attempts as they happen: the product's own stream of attempts, in bursts of a quarter of a second.
import { useEffect, useRef, useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { SluiceError, api } from './api.js'
import { paused } from './load.js'
import { untilSeen, whileSeen } from './seen.js'

/** How many are kept; older ones are in the lists of deliveries. */
export const kept = 100_000
const burst = 250
const spare = 5000 // so that the oldest are dropped rarely, and not one by one

export interface Tail {
  /** Newest last. */
  attempts: T.Attempt[]
  /** While paused: how many have come since. */
  behind: number
  problem: unknown
}

/** Follows the attempts of a namespace while the page is shown. */
export function useAttempts(ns: string, subscription: string): Tail {
  const all = useRef<T.Attempt[]>([])
  const [tail, setTail] = useState<Tail>({ attempts: [], behind: 0, problem: undefined })
  useEffect(() => {
    const stop = new AbortController()
    const waiting: T.Attempt[] = []
    all.current = []
    let problem: unknown
    const show = (): void => {
      if (!paused.value && waiting.length > 0) {
        all.current = all.current.concat(waiting.splice(0))
        if (all.current.length > kept + spare) all.current = all.current.slice(-kept)
      }
      if (waiting.length > kept) waiting.splice(0, waiting.length - kept)
      setTail((old) => (old.attempts === all.current && old.behind === waiting.length && old.problem === problem ? old : { attempts: all.current, behind: waiting.length, problem }))
    }
    const timer = setInterval(show, burst)
    void follow(ns, subscription, stop.signal, (found) => waiting.push(...found), (p) => (problem = p))
    return () => {
      stop.abort()
      clearInterval(timer)
    }
  }, [ns, subscription])
  return tail
}

/** Asks for attempts behind the last one, again and again. A lost connection is taken up where it was. */
async function follow(ns: string, subscription: string, signal: AbortSignal, take: (found: T.Attempt[]) => void, failed: (problem: unknown) => void): Promise<void> {
  let after: string | undefined
  let pause = 100
  while (!signal.aborted) {
    await untilSeen(signal)
    try {
      const args = { ns, subscription: subscription || undefined, limit: 1000 }
      const page = await whileSeen(signal, (s) => api().listAttempts(after === undefined ? args : { ...args, after, wait: '25s' }, { signal: s }))
      take(page.attempts)
      after = page.next_after
      failed(undefined)
      pause = 100
    } catch (problem) {
      if (signal.aborted) return
      if (document.hidden) continue
      failed(problem)
      if (problem instanceof SluiceError && [400, 401, 403, 404, 422].includes(problem.status)) return
      await new Promise((done) => setTimeout(done, pause))
      pause = Math.min(5000, pause * 2)
    }
  }
}
