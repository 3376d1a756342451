// Who uses the console, and how the server is reached. The token lives in this tab only: there are no cookies, so no other
// site can act with it.
import './storage.js'
import { signal } from '@preact/signals'

const stored = 'sluice.token'

/** What the server wrote into the page. */
export function setting(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="sluice-${name}"]`)?.content ?? ''
}

/** Path below which the pages are, without a slash at the end. */
export const prefix = setting('prefix')
/** URL of the server's API. */
export const server = location.origin + setting('api')

/** Name of the page in its heading. */
export const brand = setting('title') || 'Sluice'

/** The server's operator allows no changes from these pages. */
export const readOnlyAlways = setting('readonly') === 'true'
/** Nothing can be changed from this browser. */
export const readOnly = signal(readOnlyAlways || localStorage.getItem('sluice.readonly') === 'yes')

export function toggleReadOnly(): void {
  readOnly.value = readOnlyAlways || !readOnly.value
  localStorage.setItem('sluice.readonly', readOnly.value ? 'yes' : 'no')
}

export const token = signal<string | null>(sessionStorage.getItem(stored))
/** Why the last session ended. */
export const ended = signal('')

export function signIn(value: string): void {
  sessionStorage.setItem(stored, value)
  ended.value = ''
  token.value = value
}

export function signOut(reason = ''): void {
  sessionStorage.removeItem(stored)
  ended.value = reason
  token.value = null
}
