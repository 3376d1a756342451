// The portal: the pages of one tenant, with the console's parts.
import { type ComponentChildren, type JSX, render } from 'preact'
import { useEffect } from 'preact/hooks'
import { connected, statusOf } from './lib/api.js'
import { count, counted, line } from './lib/format.js'
import { beFramed, tellEnd } from './lib/frame.js'
import { pressed } from './lib/keys.js'
import { openLinks, opening, refused } from './lib/link.js'
import { usePages } from './lib/load.js'
import { Identity, identify, may, me } from './lib/me.js'
import { href, listen, match, place } from './lib/route.js'
import { brand, ended, token } from './lib/session.js'
import { Attempts } from './pages/attempts.js'
import { Catalogue } from './pages/catalogue.js'
import { Event } from './pages/event.js'
import { Events } from './pages/events.js'
import { Stream } from './pages/streams.js'
import { Subscription } from './pages/subscription.js'
import { NewSubscription, Subscriptions, answered } from './pages/subscriptions.js'
import { Empty, Time, Title } from './parts/basic.js'
import { AskButton } from './parts/dialog.js'
import { Pages } from './parts/table.js'
import { Live, Notice, Settings, ShownCode } from './shell.js'

interface Entry {
  path: string
  show: (...parts: string[]) => ComponentChildren
  /** The verb without which the API refuses what the page shows. */
  needs: 'read' | 'subscribe'
  /** In the menu. */
  name?: string
}

const entries: Entry[] = [
  { path: '/subscriptions', name: 'Subscriptions', needs: 'subscribe', show: () => <Subscriptions /> },
  { path: '/subscriptions/new', needs: 'subscribe', show: () => <NewSubscription /> },
  { path: '/subscriptions/:', needs: 'subscribe', show: (id = '') => <Subscription key={id} id={id} /> },
  { path: '/attempts', name: 'Attempts', needs: 'subscribe', show: () => <Attempts /> },
  { path: '/missed', name: 'Missed events', needs: 'subscribe', show: () => <Missed /> },
  { path: '/events', name: 'Events', needs: 'read', show: () => <Events /> },
  { path: '/events/:/:', needs: 'read', show: (ns = '', id = '') => <Event key={`${ns} ${id}`} ns={ns} id={id} /> },
  { path: '/streams/:/*', needs: 'read', show: (ns = '', path = '') => <Stream key={`${ns} ${path}`} ns={ns} path={`/${path}`} /> },
  { path: '/catalogue', name: 'Catalogue', needs: 'read', show: () => <Catalogue /> },
]

/** Subscriptions with dead letters, and a button that sends them again. */
function Missed(): JSX.Element {
  const load = usePages('missed', {
    cli: line('status', '--health', 'dead_letters'),
    page: async (api, cursor) => {
      const page = await api.listHealth({ limit: 100, cursor })
      return { rows: page.subscriptions.filter((s) => s.dead_letters > 0), next: page.next_cursor }
    },
  })
  return (
    <>
      <Title>Missed events</Title>
      <p class="lead">Events whose deliveries failed for good. They are kept, and can be sent again.</p>
      <Pages
        label="Missed events" load={load} id={(s) => s.id} empty="No event was missed."
        columns={[
          { title: 'Subscription', cell: (s) => <a href={href(`/subscriptions/${encodeURIComponent(s.id)}`, { tab: 'dead' })}>{s.id}</a> },
          { title: 'Events', align: 'right', cell: (s) => count(s.dead_letters) },
          { title: 'Last answer', cell: (s) => answered(s.last_attempt), wide: true },
          {
            title: 'Act',
            cell: (s) => (
              <AskButton
                act={{ name: 'Send again', done: 'The events are sent again.', cli: line('dead', 'redrive', s.id, '--all'), run: (api) => api.redriveDeadLetters({ id: s.id, body: { all: true } }) }}
                question={`Send the missed events of ${s.id} again, in order of their paths?`} then={load.reload}
                count={async (api) => `${counted((await statusOf(api, s.id)).dead_letters ?? 0, 'event')} will be sent again.`}
              />
            ),
          },
        ]}
      />
    </>
  )
}

function page(): ComponentChildren {
  const shown = entries.filter((e) => may(e.needs))
  const path = place.value.path === '/' ? (shown[0]?.path ?? '') : place.value.path
  for (const e of shown) {
    const parts = match(e.path, path)
    if (parts) return e.show(...parts)
  }
  return (
    <>
      <Title>Not found</Title>
      <Empty>There is no page at this address that you may see.</Empty>
    </>
  )
}

function Menu(): JSX.Element {
  const named = entries.filter((e) => e.name && may(e.needs))
  const here = (e: Entry): boolean => place.value.path === e.path || place.value.path.startsWith(`${e.path}/`) || (place.value.path === '/' && e === named[0])
  return (
    <nav class="menu open" aria-label="Pages">
      <ul>{named.map((e) => <li key={e.path}><a href={href(e.path)} aria-current={here(e) ? 'page' : undefined}>{e.name}</a></li>)}</ul>
    </nav>
  )
}

/** Without a session, all that is known is where to get another one. */
function Closed(): JSX.Element {
  useEffect(() => {
    if (ended.value && !refused.value) tellEnd() // a link that did not open is no reason to open another one, again and again
  }, [])
  return (
    <main id="main" class="signin">
      <h1 tabIndex={-1}>{brand}</h1>
      {refused.value ? <p class="problem" role="alert">{refused.value}</p> : ended.value && <p class="problem" role="alert">Your session has ended.</p>}
      <p>Open this page again from where you came: each link works once, for a few minutes.</p>
    </main>
  )
}

function App(): JSX.Element {
  useEffect(identify, [token.value])
  useEffect(keys, [])
  if (opening.value) return <main id="main"><p class="quiet" role="status">Loading…</p></main>
  if (token.value === null) return <Closed />
  if (!me.value) return <Identity />
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <a class="brand" href={href('/')}>{brand}</a>
        <Live />
        <Settings />
      </header>
      <Menu />
      <main id="main">
        {!connected.value && <p class="problem" role="alert">The server does not answer. The page shows what was known last, and goes on by itself.</p>}
        {page()}
        <footer class="quiet">{me.value.who.grant && <>This session ends <Time at={me.value.who.grant.expires_at} />.</>}</footer>
        <ShownCode />
      </main>
      <Notice />
    </>
  )
}

/** Single keys: those of the page itself, as the console has them. */
function keys(): () => void {
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return
    if (event.target instanceof HTMLElement && event.target.matches('input, textarea, select')) return
    pressed.value = ''
    pressed.value = event.key
  }
  addEventListener('keydown', press)
  return () => removeEventListener('keydown', press)
}

openLinks()
listen()
beFramed()
const root = document.querySelector('#app')
if (root) render(<App />, root)
