import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Sluice } from '../lib/api.js'
import { ended, server, signIn } from '../lib/session.js'
import { Problem } from '../parts/basic.js'

/** Asks for a token. */
export function SignIn(): JSX.Element {
  const [problem, setProblem] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const value = new FormData(event.currentTarget as HTMLFormElement).get('token')
    const token = typeof value === 'string' ? value.trim() : ''
    setBusy(true)
    await new Sluice({ url: server, token, retries: 0 }).whoami().then(() => signIn(token), setProblem)
    setBusy(false)
  }
  return (
    <main id="main" class="signin">
      <h1>Sluice</h1>
      {ended.value && <p class="problem" role="alert">{ended.value}</p>}
      <form onSubmit={(e) => void submit(e)}>
        <div class="field">
          <label for="token">Token</label>
          <input id="token" name="token" type="password" required autocomplete="off" spellcheck={false} aria-describedby="token-hint" />
          <p id="token-hint" class="hint">The root token is in <code>root.token</code> of the data directory. <code>sluice grant create</code> issues others.</p>
        </div>
        <Problem of={problem} />
        <button type="submit" class="primary" disabled={busy}>Sign in</button>
      </form>
    </main>
  )
}
