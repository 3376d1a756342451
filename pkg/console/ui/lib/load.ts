import { signal } from '@preact/signals'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Call, type Sluice, SluiceError, api } from './api.js'
import { token } from './session.js'

/** What a view shows or did, as code. */
export interface Code {
  /** The line of the command line. */
  cli: string
  calls: Call[]
  /** A line of the `nats` command line that shows the same, if there is one. */
  nats?: string | undefined
}

/** Views load as they are shown; what each has loaded, by its line. */
export const shown = signal<ReadonlyMap<string, Code>>(new Map())
/** Live views stand still. */
export const paused = signal(false)

function show(code: Code, id: string): void {
  shown.value = new Map(shown.value).set(id, code)
}

function hide(id: string): void {
  const rest = new Map(shown.value)
  rest.delete(id)
  shown.value = rest
}

export interface Load<R> {
  value: R | undefined
  problem: unknown
  busy: boolean
  /** Loads again. */
  reload: () => void
}

export interface Source<R> {
  cli: string
  nats?: string | undefined
  /** Loads again after so many milliseconds, while the page is visible and not paused. */
  every?: number
  run: (api: Sluice, signal: AbortSignal) => Promise<R>
}

/** Loads what a view shows. Another key loads anew; what was loaded stays until then. */
export function useLoad<R>(key: string, source: Source<R>): Load<R> {
  const [state, setState] = useState<{ key: string; value: R | undefined; problem: unknown; busy: boolean }>({ key, value: undefined, problem: undefined, busy: true })
  const latest = useRef(source)
  latest.current = source
  const [turn, setTurn] = useState(0)
  const reload = useCallback(() => setTurn((n) => n + 1), [])

  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async (): Promise<void> => {
      const calls: Call[] = []
      const { cli, nats, every } = latest.current
      if (every && (paused.value || document.hidden)) {
        timer = setTimeout(run, Math.min(every, 1000))
        return
      }
      try {
        const value = await latest.current.run(api(calls), stop.signal)
        if (!stop.signal.aborted) setState({ key, value, problem: undefined, busy: false })
      } catch (problem) {
        if (!stop.signal.aborted) setState((old) => ({ key, value: old.key === key && isAway(problem) ? old.value : undefined, problem, busy: false }))
      }
      if (stop.signal.aborted) return
      show({ cli, nats, calls }, key)
      if (every) timer = setTimeout(run, every)
    }
    void run()
    return () => {
      stop.abort()
      clearTimeout(timer)
      hide(key)
    }
  }, [key, turn, token.value])

  const { value, problem, busy } = state.key === key ? state : { value: undefined, problem: undefined, busy: true }
  return { value, problem, busy, reload }
}

/** While the server is away, a view keeps what it shows. */
function isAway(problem: unknown): boolean {
  return problem instanceof SluiceError && (problem.status === 0 || problem.status === 503)
}

/** Loads a list page by page: more adds the next one. A key loads anew; only the first page is loaded again by itself. */
export function usePages<R>(key: string, source: Omit<Source<never>, 'run'> & { page: (api: Sluice, cursor: string | undefined) => Promise<{ rows: R[]; next: string }> }): Load<R[]> & { more: (() => void) | undefined } {
  const [extra, setExtra] = useState<{ key: string; rows: R[]; next: string; problem: unknown }>()
  const first = useLoad(key, { cli: source.cli, nats: source.nats, ...(source.every ? { every: source.every } : {}), run: (client) => source.page(client, undefined) })
  const own = extra?.key === key ? extra : undefined
  const next = own ? own.next : (first.value?.next ?? '')
  const rows = first.value && [...first.value.rows, ...(own?.rows ?? [])]
  const more = async (): Promise<void> => {
    try {
      const page = await source.page(api(), next)
      setExtra({ key, rows: [...(own?.rows ?? []), ...page.rows], next: page.next, problem: undefined })
    } catch (problem) {
      setExtra({ key, rows: own?.rows ?? [], next, problem })
    }
  }
  const reload = (): void => {
    setExtra(undefined)
    first.reload()
  }
  return { value: rows, problem: first.problem ?? own?.problem, busy: first.busy, reload, more: next ? () => void more() : undefined }
}
