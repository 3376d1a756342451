import { signal } from '@preact/signals'
import { Sluice } from '../../../typescript/src/client.js'
import { SluiceError } from '../../../typescript/src/error.js'
import type * as T from '../../../typescript/src/types.js'
import { readOnly, server, signOut, token } from './session.js'

export { Sluice, SluiceError }

/** A request that a page has sent, shown as code. */
export interface Call {
  method: string
  path: string
  body?: string | undefined
}

/** Whether the server answers. */
export const connected = signal(true)

/** Returns a client that remembers its calls. A refused token ends the session, a lost connection is shown. */
export function api(calls: Call[] = []): Sluice {
  const used = token.value
  return new Sluice({ url: server, token: used ?? '', retries: 0, fetch: (url, init) => send(String(url), init ?? {}, calls, used) })
}

async function send(url: string, init: RequestInit, calls: Call[], used: string | null): Promise<Response> {
  const { pathname, search } = new URL(url)
  if (readOnly.value && init.method !== 'GET' && !/\/(grants\/verify|match)$/.test(pathname)) throw new SluiceError('forbidden', 'The console is read-only; change that in the menu with your name.')
  calls.push({ method: init.method ?? 'GET', path: pathname + search, body: typeof init.body === 'string' ? init.body : undefined })
  try {
    const response = await fetch(url, init)
    connected.value = true
    if (response.status === 401 && token.value === used) signOut('The server no longer accepts this token.')
    return response
  } catch (problem) {
    if (!init.signal?.aborted) connected.value = false
    throw problem
  }
}

/** Returns a subscription that delivers. A mirror is an error: it has a page of its own. */
export async function delivering(client: Sluice, id: string): Promise<T.Subscription> {
  const sub = await client.getSubscription({ id })
  if (sub.mode === 'mirror') throw new Error(`${id} is a mirror: see Mirrors.`)
  return sub
}

/** Returns the status of a subscription that delivers. */
export async function statusOf(client: Sluice, id: string): Promise<T.Status> {
  return (await client.getStatus({ id })) as T.Status
}

/** Returns the message of an error, and the field that it is about. */
export function told(problem: unknown): { message: string; field: string } {
  if (problem instanceof SluiceError) {
    const field = problem.details?.['field']
    return { message: problem.message, field: typeof field === 'string' ? field : '' }
  }
  return { message: problem instanceof Error ? problem.message : String(problem), field: '' }
}
