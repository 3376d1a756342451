import type { ComponentChildren, JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { connected } from './lib/api.js'
import { keyboard } from './lib/keys.js'
import { match, place } from './lib/route.js'
import { token } from './lib/session.js'
import { Identity, identify, me } from './lib/me.js'
import { Header, Help, Menu, Notice, ShownCode } from './shell.js'
import { SignIn } from './pages/signin.js'
import { Title, Empty } from './parts/basic.js'
import { Access } from './pages/access.js'
import { Attempts } from './pages/attempts.js'
import { Audit } from './pages/audit.js'
import { Catalogue } from './pages/catalogue.js'
import { Event } from './pages/event.js'
import { Events } from './pages/events.js'
import { Mirrors } from './pages/mirrors.js'
import { Overview } from './pages/overview.js'
import { Problems } from './pages/problems.js'
import { Schedules } from './pages/schedules.js'
import { Search } from './pages/search.js'
import { Stream, Streams } from './pages/streams.js'
import { Subscription } from './pages/subscription.js'
import { NewSubscription, Subscriptions } from './pages/subscriptions.js'
import { System } from './pages/system.js'

type Page = (...parts: string[]) => ComponentChildren

const pages: [string, Page][] = [
  ['/', () => <Overview />],
  ['/problems', () => <Problems />],
  ['/subscriptions', () => <Subscriptions />],
  ['/subscriptions/new', () => <NewSubscription />],
  ['/subscriptions/:', (id) => <Subscription key={id} id={id ?? ''} />],
  ['/attempts', () => <Attempts />],
  ['/events', () => <Events />],
  ['/events/:/:', (ns, id) => <Event key={`${ns} ${id}`} ns={ns ?? ''} id={id ?? ''} />],
  ['/streams', () => <Streams />],
  ['/streams/:/*', (ns, path) => <Stream key={`${ns} ${path}`} ns={ns ?? ''} path={`/${path}`} />],
  ['/schedules', () => <Schedules />],
  ['/catalogue', () => <Catalogue />],
  ['/access', () => <Access />],
  ['/audit', () => <Audit />],
  ['/mirrors', () => <Mirrors />],
  ['/system', () => <System />],
  ['/search', () => <Search />],
]

function page(): ComponentChildren {
  for (const [pattern, show] of pages) {
    const parts = match(pattern, place.value.path)
    if (parts) return show(...parts)
  }
  return (
    <>
      <Title>Not found</Title>
      <Empty>There is no page at this address.</Empty>
    </>
  )
}

export function App(): JSX.Element {
  useEffect(keyboard, [])
  useEffect(identify, [token.value])
  if (token.value === null) return <SignIn />
  if (!me.value) return <Identity />
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <Header />
      <Menu />
      <main id="main">
        {!connected.value && <p class="problem" role="alert">The server does not answer. The page shows what was known last, and goes on by itself.</p>}
        {page()}
        <ShownCode />
      </main>
      <Notice />
      <Help />
    </>
  )
}
