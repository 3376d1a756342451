// The caller and its namespaces.
import { computed, signal } from '@preact/signals'
import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { Problem } from '../parts/basic.js'
import { api } from './api.js'
import { namespace } from './route.js'
import { untilSeen, whileSeen } from './seen.js'
import { token } from './session.js'

interface Me {
  who: T.WhoamiResult
  namespaces: T.Namespace[]
  /** Beginning of the subjects of events over NATS. */
  subject: string
}

export const me = signal<Me | null>(null)
const problem = signal<unknown>(undefined)

/** Shortest time between two requests for the caller, in milliseconds. */
const pause = 1000

/** Loads who the caller is, and asks again while the page is open. */
export function identify(): (() => void) | undefined {
  me.value = null
  problem.value = undefined
  if (token.value === null) return undefined
  void load()
  const stop = new AbortController()
  void watch(stop.signal)
  return () => stop.abort()
}

/** Waits for the end of the grant while the page is seen: a refused token ends the session, so that the page is empty at once. */
async function watch(stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const began = Date.now()
    await untilSeen(stop)
    if (me.value?.who.grant) await whileSeen(stop, (signal) => api().whoami({ wait: '25s' }, { signal })).catch(() => undefined)
    await new Promise((done) => setTimeout(done, Math.max(0, began + (me.value ? pause : 100) - Date.now())))
  }
}

async function load(): Promise<void> {
  try {
    const client = api()
    const [who, namespaces, capabilities] = await Promise.all([client.whoami(), client.listNamespaces({ limit: 1000 }), client.getCapabilities()])
    me.value = { who, namespaces: namespaces.namespaces, subject: capabilities.nats.subject }
  } catch (p) {
    problem.value = p
  }
}

/** Shown until the caller is known. */
export function Identity(): JSX.Element {
  return <main id="main">{problem.value ? <Problem of={problem.value} retry={identify} /> : <p class="quiet" role="status">Loading…</p>}</main>
}

/** Whether the caller is root, or has a grant for everything with a verb. */
export function may(verb: T.Verb): boolean {
  const grant = me.value?.who.grant
  return !!me.value && (!grant || grant.verbs.includes(verb))
}

export const isRoot = computed(() => me.value !== null && !me.value.who.grant)

/** The paths of the caller's grant. */
export function granted(): string {
  return /^path:[^/]+(\/.*)$/.exec(me.value?.who.grant?.object ?? '')?.[1] ?? '/**'
}

/** Whether the caller administers the whole server. */
export const administers = computed(() => isRoot.value || (may('admin') && me.value?.who.grant?.object === '*'))

/** The namespace that is looked at, or the first one, for pages of one namespace. */
export const oneNamespace = computed(() => namespace.value || (me.value?.namespaces.find((n) => n.name === 'default') ?? me.value?.namespaces[0])?.name || 'default')
