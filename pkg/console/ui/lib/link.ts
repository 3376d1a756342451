// A link to the portal has a code behind `#`, which works once. It is exchanged for a token, and is gone from the address and the
// history before anything else happens.
import { signal } from '@preact/signals'
import { SluiceError } from './api.js'
import { go } from './route.js'
import { prefix, server, signIn, token } from './session.js'
import { Sluice } from './api.js'

/** Whether a code is being exchanged. */
export const opening = signal(false)
/** Why a link did not open. */
export const refused = signal('')

function takeCode(): string {
  const code = new URLSearchParams(location.hash.slice(1)).get('code') ?? ''
  if (location.hash) history.replaceState(null, '', location.pathname + location.search)
  return code
}

/** Where a session begins: always a page below the own prefix. */
function begin(next: string): string {
  const path = next.startsWith('/portal/') ? next.slice('/portal'.length) : '/'
  const at = new URL(prefix + path, location.origin)
  return at.origin === location.origin && at.pathname.startsWith(`${prefix}/`) ? at.pathname + at.search : `${prefix}/`
}

async function exchange(code: string): Promise<void> {
  opening.value = true
  try {
    const session = await new Sluice({ url: server, token: '', retries: 0 }).createPortalSession({ body: { code } })
    signIn(session.token)
    go(begin(session.next), true)
  } catch (problem) {
    // After a reload of a frame, its session goes on.
    if (token.value === null) refused.value = problem instanceof SluiceError ? problem.message : 'The server does not answer. Open the link again.'
  } finally {
    opening.value = false
  }
}

/** Opens the session of the link in the address, now and when another link is opened in the same tab. */
export function openLinks(): void {
  const open = (): void => {
    const code = takeCode()
    if (code) void exchange(code)
  }
  addEventListener('hashchange', open)
  open()
}
