// Every view is a URL: a path below the prefix, and a query.
import { computed, signal } from '@preact/signals'
import { prefix } from './session.js'

interface Place {
  path: string
  query: URLSearchParams
}

function read(): Place {
  const path = location.pathname.startsWith(prefix) ? location.pathname.slice(prefix.length) : '/'
  return { path: path === '' ? '/' : path, query: new URLSearchParams(location.search) }
}

export const place = signal(read())

/** The namespace that is looked at; empty: all that the caller may see. */
export const namespace = computed(() => place.value.query.get('ns') ?? '')

/** Returns the URL of a view. It keeps the namespace unless the query has one. */
export function href(path: string, query: Record<string, string | undefined> = {}): string {
  const all = new URLSearchParams()
  for (const [name, value] of Object.entries({ ns: namespace.value, ...query })) if (value) all.set(name, value)
  return prefix + path + (all.size > 0 ? `?${all}` : '')
}

/** Returns the URL of this view with a changed query. */
export function here(query: Record<string, string | undefined>): string {
  return href(place.value.path, { ...Object.fromEntries(place.value.query), ...query })
}

/** Shows a view. */
export function go(url: string, replace = false): void {
  if (replace) history.replaceState(null, '', url)
  else history.pushState(null, '', url)
  const before = place.value.path
  place.value = read()
  if (place.value.path !== before) {
    scrollTo(0, 0)
    requestAnimationFrame(() => document.querySelector<HTMLElement>('main h1')?.focus())
  }
}

export function param(name: string): string {
  return place.value.query.get(name) ?? ''
}

/** Turns clicks on links below the prefix into views, unless another tab or a download is wanted. */
export function listen(): void {
  addEventListener('popstate', () => (place.value = read()))
  addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    if (link.target || link.hasAttribute('download') || link.origin !== location.origin || !link.pathname.startsWith(`${prefix}/`)) return
    if (link.hash && link.pathname === location.pathname) return
    event.preventDefault()
    go(link.pathname + link.search)
  })
}

/** A part of a path as text. What is no encoding of one stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Returns the parts of a path that matches a pattern such as `/subscriptions/:`, or null. `*` takes the rest. */
export function match(pattern: string, path: string): string[] | null {
  const want = pattern.split('/')
  const have = path.replace(/(.)\/$/, '$1').split('/')
  const found: string[] = []
  for (const [i, part] of want.entries()) {
    if (part === '*') return [...found, have.slice(i).map(decoded).join('/')]
    const value = have[i]
    if (value === undefined || (part !== ':' && part !== value)) return null
    if (part === ':') found.push(decoded(value))
  }
  return have.length === want.length ? found : null
}

/** Returns the URL of the page of a stream. */
export function streamHref(ns: string, path: string): string {
  return href(`/streams/${encodeURIComponent(ns)}${path.split('/').map(encodeURIComponent).join('/')}`)
}

/** Returns the URL of an event's story. */
export function eventHref(ns: string, id: string): string {
  return href(`/events/${encodeURIComponent(ns)}/${encodeURIComponent(id)}`)
}
