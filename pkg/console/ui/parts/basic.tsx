// Small pieces that every page uses.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { told } from '../lib/api.js'
import { age, now, pretty, time, visible } from '../lib/format.js'
import type { Load } from '../lib/load.js'
import { brand } from '../lib/session.js'

/** A time: how long ago, with the whole as its title. */
export function Time({ at, full }: { at: string | null | undefined; full?: boolean }): JSX.Element {
  if (!at) return <span class="quiet">–</span>
  void now.value
  return (
    <time dateTime={at} title={time(at)}>
      {full ? time(at) : age(at)}
    </time>
  )
}

type Tone = 'good' | 'warn' | 'bad' | 'info' | 'none'

const tones: Record<string, Tone> = {
  ok: 'good', delivered: 'good', active: 'good', closed: 'good', done: 'good', fired: 'good', live: 'good', approved: 'good', resolved: 'good', ample: 'good', idle: 'none',
  failing: 'bad', dead: 'bad', failed: 'bad', gone: 'bad', refused: 'bad', open: 'bad', held: 'bad', broken: 'bad', disabled: 'bad', missed: 'bad', unsafe: 'bad', error: 'bad',
  retrying: 'warn', waiting: 'warn', behind: 'warn', backlog: 'warn', half_open: 'warn', dead_letters: 'warn', suspended: 'warn', paused: 'warn', waking: 'warn', tight: 'warn', scarce: 'warn', changed: 'warn', acknowledged: 'warn',
  running: 'info', in_flight: 'info', firing: 'info', syncing: 'info', found: 'info',
}

/** A state in words, with a colour and a shape. */
export function State({ of: state, tone }: { of: string; tone?: Tone }): JSX.Element {
  return <span class={`state ${tone ?? tones[state] ?? 'none'}`}>{state.replaceAll('_', ' ')}</span>
}

/** Names and values that others wrote: never markup, and nothing in them is invisible. */
export function Text({ children }: { children: string | undefined }): JSX.Element {
  return <span class="text">{visible(children ?? '')}</span>
}

/** A sentence that may quote what others wrote. */
export function Sentence({ children }: { children: string | undefined }): JSX.Element {
  return <span class="sentence">{visible(children ?? '')}</span>
}

/** How much of a payload is shown at once, and laid out at once: browsers choke on lines of megabytes. */
const shownAtOnce = 20_000

/** Cuts a text into pieces, behind a line break where there is one. */
function pieces(text: string): string[] {
  const all: string[] = []
  for (let from = 0; from < text.length;) {
    const end = from + shownAtOnce
    const line = text.lastIndexOf('\n', end - 1) + 1
    const to = end >= text.length ? text.length : line > from ? line : end
    all.push(text.slice(from, to))
    from = to
  }
  return all
}

/** A payload, as text. */
export function Payload({ value, label }: { value: unknown; label: string }): JSX.Element {
  const [all, setAll] = useState(false)
  const text = pretty(value)
  const cut = !all && text.length > shownAtOnce
  const parts = all ? pieces(text) : [text.slice(0, shownAtOnce)]
  return (
    <figure class="payload">
      <pre tabIndex={0} role="region" aria-label={label}>{parts.map((part, i) => <span key={i} class="piece">{part}</span>)}</pre>
      <figcaption>
        {cut && <button type="button" onClick={() => setAll(true)}>Show all {text.length.toLocaleString('en')} characters</button>}
        <Copy text={text} />
      </figcaption>
    </figure>
  )
}

/** Copies a text. */
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }): JSX.Element {
  const [done, setDone] = useState(false)
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text).then(() => setDone(true), () => setDone(false))
    setTimeout(() => setDone(false), 2000)
  }
  return <button type="button" class="small" onClick={() => void copy()}>{done ? 'Copied' : label}</button>
}

/** A line of code with a button that copies it. */
export function CodeLine({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <div class="code">
      <pre tabIndex={0} role="region" aria-label={label}>{visible(text)}</pre>
      <Copy text={text} />
    </div>
  )
}

/** What went wrong, as the server says it. */
export function Problem({ of: problem, retry }: { of: unknown; retry?: () => void }): JSX.Element | null {
  if (!problem) return null
  return (
    <div class="problem" role="alert">
      <Sentence>{told(problem).message}</Sentence>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  )
}

/** What was loaded, or why not. */
export function Loaded<R>({ load, children }: { load: Load<R>; children: (value: R) => ComponentChildren }): JSX.Element {
  return (
    <>
      <Problem of={load.problem} retry={load.reload} />
      {load.value !== undefined ? children(load.value) : load.busy && <p class="quiet" role="status">Loading…</p>}
    </>
  )
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>
}

/** The heading of a page. It has the focus after another page. */
export function Title({ children, kind, actions }: { children: ComponentChildren; kind?: string; actions?: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${heading.current?.textContent ?? ''} · ${brand}`
  })
  return (
    <header class="title">
      <div>
        {kind && <p class="kind">{kind}</p>}
        <h1 tabIndex={-1} ref={heading}>{children}</h1>
      </div>
      {actions && <div class="actions">{actions}</div>}
    </header>
  )
}

export function Section({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const id = useId()
  return (
    <section aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

/** Names and values. Those without a value are left out. */
export function Facts({ of: facts }: { of: Record<string, ComponentChildren> }): JSX.Element {
  return (
    <dl class="facts">
      {Object.entries(facts).filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** A figure with its name, the most important thing first. */
export function Figure({ name, value, tone, href, note }: { name: string; value: ComponentChildren; tone?: Tone | undefined; href?: string; note?: ComponentChildren }): JSX.Element {
  const inner = (
    <>
      <span class="name">{name}</span>
      <strong>{value}</strong>
      {note && <span class="note">{note}</span>}
    </>
  )
  return href ? <a class={`figure ${tone ?? ''}`} href={href}>{inner}</a> : <div class={`figure ${tone ?? ''}`}>{inner}</div>
}
