// What surrounds the pages: menu, search, settings of the view, what was done last, and the page as code.
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { connected } from './lib/api.js'
import { toggleUTC, utc } from './lib/format.js'
import { helping, pages, pressed, shortcuts } from './lib/keys.js'
import { paused, shown } from './lib/load.js'
import { administers, may, me } from './lib/me.js'
import { go, here, href, match, namespace, place } from './lib/route.js'
import { readOnly, readOnlyAlways, signOut, toggleReadOnly } from './lib/session.js'
import { type Theme, setTheme, theme } from './lib/theme.js'
import { CodeOf } from './parts/code.js'
import { Dialog, notice, perform } from './parts/dialog.js'

export function Header(): JSX.Element {
  return (
    <header class="top">
      <a class="brand" href={href('/')}>Sluice</a>
      <form role="search" onSubmit={(e) => {
        e.preventDefault()
        const text = new FormData(e.currentTarget).get('q')
        if (typeof text === 'string' && text.trim()) go(href('/search', { q: text.trim() }))
      }}>
        <label class="hidden" for="search">Search for an event, a subscription or a path</label>
        <input id="search" name="q" type="search" placeholder="Event, subscription or path  ( / )" spellcheck={false} autocomplete="off" />
      </form>
      <Namespaces />
      <Live />
      <Settings />
    </header>
  )
}

function Namespaces(): JSX.Element {
  const names = me.value?.namespaces.map((n) => n.name) ?? []
  if (namespace.value && !names.includes(namespace.value)) names.push(namespace.value)
  return (
    <>
      <label class="hidden" for="ns">Namespace</label>
      <select id="ns" value={namespace.value} onChange={(e) => go(here({ ns: e.currentTarget.value || undefined }))}>
        <option value="">All namespaces</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </>
  )
}

/** Whether what is shown is the present. */
export function Live(): JSX.Element {
  useEffect(() => pressed.subscribe((key) => {
    if (key === 'l') paused.value = !paused.peek()
  }), [])
  const state = !connected.value ? 'away' : paused.value ? 'paused' : 'live'
  return (
    <button type="button" class={`live ${state}`} aria-pressed={!paused.value} title="Pause or resume live views (l)" onClick={() => (paused.value = !paused.value)}>
      {state}
    </button>
  )
}

const themes: [Theme, string][] = [['system', 'System theme'], ['light', 'Light theme'], ['dark', 'Dark theme']]

export function Settings(): JSX.Element {
  return (
    <details class="settings">
      <summary>{me.value?.who.principal ?? 'Settings'}</summary>
      <div>
        <fieldset>
          <legend>Theme</legend>
          {themes.map(([id, name]) => (
            <label key={id}><input type="radio" name="theme" checked={theme.value === id} onChange={() => setTheme(id)} /> {name}</label>
          ))}
        </fieldset>
        <label><input type="checkbox" checked={utc.value} onChange={toggleUTC} /> Times in UTC</label>
        <label><input type="checkbox" checked={readOnly.value} disabled={readOnlyAlways} onChange={toggleReadOnly} /> Read-only</label>
        <button type="button" onClick={() => (helping.value = true)}>Keys (?)</button>
        <button type="button" onClick={() => signOut()}>Sign out</button>
      </div>
    </details>
  )
}

/** Pages that the caller may open. */
function allowed(path: string): boolean {
  switch (path) {
    case '/subscriptions':
    case '/problems':
    case '/attempts':
      return may('subscribe')
    case '/events':
    case '/streams':
    case '/schedules':
    case '/catalogue':
      return may('read')
    case '/mirrors':
      return may('mirror') || may('admin')
    case '/audit':
      return may('admin')
    case '/system':
      return administers.value
  }
  return true
}

export function Menu(): JSX.Element {
  const [open, setOpen] = useState(false)
  useEffect(() => setOpen(false), [place.value])
  return (
    <nav class={open ? 'menu open' : 'menu'} aria-label="Pages">
      <button type="button" class="toggle" aria-expanded={open} onClick={() => setOpen(!open)}>Menu</button>
      <ul>
        {pages.filter(([path]) => allowed(path)).map(([path, name]) => {
          const current = path === '/' ? place.value.path === '/' : match(`${path}/*`, place.value.path) !== null || place.value.path === path
          return <li key={path}><a href={href(path)} aria-current={current ? 'page' : undefined}>{name}</a></li>
        })}
      </ul>
    </nav>
  )
}

/** The button that shows a page as code. */
export function ShownCode(): JSX.Element {
  const [open, setOpen] = useState(false)
  useEffect(() => pressed.subscribe((key) => {
    if (key === '.') setOpen(true)
  }), [])
  return (
    <footer class="as-code">
      <button type="button" onClick={() => setOpen(true)}>As code</button>
      {open && (
        <Dialog title="This page as code" close={() => setOpen(false)}>
          {[...shown.value.values()].map((code) => <CodeOf key={code.cli} code={code} />)}
        </Dialog>
      )}
    </footer>
  )
}

/** How long a notice stays, unless the pointer or the focus is in it. */
const noticeStays = 30_000

/** What was done last, as code, and what takes it back. */
export function Notice(): JSX.Element | null {
  const [open, setOpen] = useState(false)
  const last = notice.value
  useEffect(() => {
    setOpen(false)
    if (!last) return undefined
    const timer = setInterval(() => {
      if (notice.peek() === last && !document.querySelector('.notice:is(:hover, :focus-within)')) notice.value = null
    }, noticeStays)
    return () => clearInterval(timer)
  }, [last])
  if (!last) return <div class="notice-space" role="status" />
  const { undo } = last
  return (
    <div class="notice-space" role="status">
      <div class="notice">
        <span>{last.text}</span>
        {undo && <button type="button" onClick={() => void perform(undo).catch(() => undefined)}>Undo</button>}
        {last.code && <button type="button" onClick={() => setOpen(true)}>As code</button>}
        <button type="button" aria-label="Dismiss" onClick={() => (notice.value = null)}>×</button>
        {open && last.code && (
          <Dialog title="As code" close={() => setOpen(false)}>
            <CodeOf code={last.code} />
          </Dialog>
        )}
      </div>
    </div>
  )
}

export function Help(): JSX.Element | null {
  if (!helping.value) return null
  return (
    <Dialog title="Keys" close={() => (helping.value = false)}>
      <dl class="keys">
        {shortcuts.map(([keys, name]) => (
          <div key={keys}>
            <dt>{keys.split(' ').map((k) => <kbd key={k}>{k.replace(',', '')}</kbd>)}</dt>
            <dd>{name}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
