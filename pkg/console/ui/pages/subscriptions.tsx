import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { type Sluice, told } from '../lib/api.js'
import { count, duration, line, span } from '../lib/format.js'
import { useLoad, usePages } from '../lib/load.js'
import { granted, may, oneNamespace } from '../lib/me.js'
import { go, here, href, namespace, param } from '../lib/route.js'
import { readOnly } from '../lib/session.js'
import { CodeLine, Loaded, Problem, Section, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { perform } from '../parts/dialog.js'
import { Field, Filters, Select } from '../parts/form.js'
import { Spark } from '../parts/spark.js'
import { type Column, Pages } from '../parts/table.js'

const healths: T.Health[] = ['failing', 'disabled', 'suspended', 'held', 'retrying', 'behind', 'dead_letters', 'paused', 'ok', 'cancelled']

/** The last attempt in a few words. */
export function answered(last: T.SubscriptionHealthLastAttempt | undefined): JSX.Element {
  if (!last) return <span class="quiet">none yet</span>
  return (
    <>
      {last.status ? `HTTP ${last.status}` : <Sentence>{last.error ?? last.outcome}</Sentence>} <span class="quiet"><Time at={last.at} /></span>
    </>
  )
}

export const columns: Column<T.SubscriptionHealth>[] = [
  { title: 'Subscription', cell: (s) => <><a href={href(`/subscriptions/${encodeURIComponent(s.id)}`)}>{s.id}</a><span class="below"><Text>{s.url ?? s.mode}</Text></span></> },
  { title: 'Health', cell: (s) => <State of={s.health} /> },
  { title: 'Last day', cell: (s) => s.sparkline && <Spark delivered={s.sparkline.delivered} failed={s.sparkline.failed} span="24 hours" />, wide: true },
  { title: 'Oldest waits', align: 'right', cell: (s) => (s.lag_seconds >= 1 ? span(s.lag_seconds) : '–') },
  { title: 'Dead letters', align: 'right', cell: (s) => count(s.dead_letters), wide: true },
  { title: 'Success', align: 'right', cell: (s) => (s.last_hour.attempts > 0 ? `${(s.last_hour.success_percent ?? 0).toFixed(1)} %` : '–'), wide: true },
  { title: 'p95', align: 'right', cell: (s) => (s.last_hour.p95 ? duration(s.last_hour.p95) : '–'), wide: true },
  { title: 'Last answer', cell: (s) => answered(s.last_attempt), wide: true },
]

export function Subscriptions(): JSX.Element {
  const ns = namespace.value
  const health = param('health')
  const load = usePages(`subscriptions ${ns} ${health}`, {
    cli: line('status', '--all', ns && '--ns', ns, health && '--health', health),
    every: 5000,
    page: async (api, cursor) => {
      const page = await api.listHealth({ namespace: ns || undefined, health: health || undefined, limit: 50, cursor, sparkline: true })
      return { rows: page.subscriptions, next: page.next_cursor }
    },
  })
  return (
    <>
      <Title actions={may('subscribe') && !readOnly.value && <a class="button primary" href={href('/subscriptions/new')}>New subscription</a>}>Subscriptions</Title>
      <Filters>
        <Select label="Health" value={health} set={(v) => go(here({ health: v || undefined }))} options={[['', 'Any'], ...healths.map((h): [string, string] => [h, h.replaceAll('_', ' ')])]} />
      </Filters>
      <Pages label="Subscriptions" load={load} columns={columns} id={(s) => s.id} empty="No subscription. Create one, or choose another filter." />
    </>
  )
}

/** The fields of a form that creates or edits a subscription, as text. */
export interface Draft {
  id: string
  pattern: string
  url: string
  types: string
  cel: string
  description: string
  retry: string
  ordering: string
  timeout: string
  headers: string
}

const blank: Draft = { id: '', pattern: '/**', url: '', types: '', cel: '', description: '', retry: '', ordering: '', timeout: '', headers: '' }

export function draftOf(s: T.Subscription): Draft {
  return {
    id: s.id, pattern: s.pattern, url: s.endpoint.url ?? '', types: s.filter?.types?.join(', ') ?? '', cel: s.filter?.cel ?? '', description: s.description,
    retry: s.policy.retry?.preset ?? '', ordering: s.policy.ordering ?? '', timeout: s.policy.timeout ?? '',
    headers: Object.entries(s.endpoint.headers ?? {}).map(([k, v]) => `${k}: ${v}`).join('\n'),
  }
}

function listed(text: string): string[] {
  return text.split(',').map((part) => part.trim()).filter(Boolean)
}

function headersOf(text: string): Record<string, string> {
  return Object.fromEntries(text.split('\n').filter((l) => l.includes(':')).map((l) => [l.slice(0, l.indexOf(':')).trim(), l.slice(l.indexOf(':') + 1).trim()]))
}

/** The merge patch that turns the headers of one draft into those of another. */
function headerChanges(from: string, to: string): Record<string, string | null> {
  const [old, wanted] = [headersOf(from), headersOf(to)]
  const removed = Object.keys(old).filter((name) => !(name in wanted)).map((name): [string, null] => [name, null])
  return Object.fromEntries([...removed, ...Object.entries(wanted).filter(([name, value]) => old[name] !== value)])
}

/** The merge patch that turns one draft into another; of a blank one, the request that creates it. */
export function changes(from: Draft, to: Draft): Record<string, unknown> {
  const differs = (...names: (keyof Draft)[]): boolean => names.some((n) => from[n] !== to[n])
  const policy = {
    ...(differs('retry') ? { retry: { preset: to.retry } } : {}), ...(differs('ordering') ? { ordering: to.ordering } : {}),
    ...(differs('timeout') ? { timeout: to.timeout } : {}),
  }
  const endpoint = { ...(differs('url') ? { url: to.url } : {}), ...(differs('headers') ? { headers: headerChanges(from.headers, to.headers) } : {}) }
  return {
    ...(differs('pattern') ? { pattern: to.pattern } : {}), ...(differs('description') ? { description: to.description } : {}),
    ...(differs('types', 'cel') ? { filter: { types: to.types.trim() ? listed(to.types) : null, cel: to.cel.trim() || null } } : {}),
    ...(Object.keys(endpoint).length > 0 ? { endpoint } : {}), ...(Object.keys(policy).length > 0 ? { policy } : {}),
  }
}

/** The same change for the command line. */
export function flags(from: Draft, to: Draft): string[] {
  const named: [keyof Draft, string][] = [['pattern', '--pattern'], ['url', '--url'], ['types', '--type'], ['cel', '--cel'], ['description', '--description'], ['retry', '--retry'], ['ordering', '--ordering'], ['timeout', '--timeout']]
  return named.filter(([name]) => from[name] !== to[name]).flatMap(([name, flag]) => [flag, to[name].replaceAll(', ', ',')])
}

/** Fields of a subscription. The server validates; what it refuses is shown at the field. */
export function Form({ draft, set, problem, fresh }: { draft: Draft; set: (d: Draft) => void; problem: unknown; fresh?: boolean }): JSX.Element {
  const { message, field } = problem ? told(problem) : { message: '', field: '' }
  const wrong = (...names: string[]): string | undefined => (names.some((n) => field === n || field.startsWith(`${n}.`)) ? message : undefined)
  const change = (name: keyof Draft) => (value: string): void => set({ ...draft, [name]: value })
  return (
    <>
      {fresh && <Field label="ID" hint="Made by the server if it is empty." value={draft.id} set={change('id')} problem={wrong('id')} />}
      <Field label="Endpoint URL" type="url" value={draft.url} set={change('url')} placeholder="https://example.com/hook" problem={wrong('endpoint', 'url')} required />
      <Field label="Pattern" hint="* is one part of a path, ** any number of parts." value={draft.pattern} set={change('pattern')} problem={wrong('pattern')} required />
      <Field label="Event types" hint="Separated by commas, such as order.paid or order.*; empty: all." value={draft.types} set={change('types')} problem={wrong('filter.types')} />
      <Field label="Filter (CEL)" hint="An expression over event that yields true or false." value={draft.cel} set={change('cel')} problem={wrong('filter.cel', 'filter')} />
      <Field label="Description" value={draft.description} set={change('description')} problem={wrong('description')} />
      <div class="columns">
        <Select label="Retries" value={draft.retry} set={change('retry')} problem={wrong('policy.retry')} options={[...(fresh ? [['', 'Default'] as [string, string]] : []), ['standard', 'Standard'], ['short', 'Short'], ['persistent', 'Persistent'], ['stepped', 'Stepped'], ...(draft.retry === 'custom' ? [['custom', 'Custom'] as [string, string]] : [])]} />
        <Select label="Order" value={draft.ordering} set={change('ordering')} problem={wrong('policy.ordering')} options={[...(fresh ? [['', 'Default'] as [string, string]] : []), ['path', 'By path'], ['all', 'All events'], ['none', 'None']]} />
        <Field label="Timeout" value={draft.timeout} set={change('timeout')} placeholder="10s" problem={wrong('policy.timeout')} />
      </div>
      <Field label="Headers" hint="One a line, such as X-Tenant: acme." lines={3} value={draft.headers} set={change('headers')} problem={wrong('endpoint.headers')} />
      {!wrong('id', 'endpoint', 'url', 'pattern', 'filter', 'description', 'policy') && <Problem of={problem} />}
    </>
  )
}

export function NewSubscription(): JSX.Element {
  const ns = oneNamespace.value
  const [draft, setDraft] = useState<Draft>({ ...blank, pattern: param('pattern') || granted() })
  const [problem, setProblem] = useState<unknown>()
  const [secret, setSecret] = useState<{ id: string; secret: string }>()
  const types = useLoad(`types ${ns}`, { cli: line('types', 'ls', '--ns', ns), run: (api) => api.listEventTypes({ ns, limit: 100 }) })
  const bare: Draft = { ...blank, pattern: '' }
  const cli = line('sub', 'create', '--ns', ns, ...(draft.id ? ['--id', draft.id] : []), ...flags(bare, draft))
  const create = async (event: Event): Promise<void> => {
    event.preventDefault()
    setProblem(undefined)
    const body = { namespace: ns, ...(draft.id ? { id: draft.id } : {}), ...changes(bare, draft) } as unknown as T.SubscriptionRequest
    if (body.filter) body.filter = JSON.parse(JSON.stringify(body.filter, (_, v: unknown) => v ?? undefined)) as T.Filter
    try {
      const made = (await perform({ name: 'Create', done: 'The subscription was created.', cli, run: (api: Sluice) => api.createSubscription({ body }) })) as T.SubscriptionWithSecret
      if (made.secret) setSecret({ id: made.id, secret: made.secret })
      else go(href(`/subscriptions/${encodeURIComponent(made.id)}`))
    } catch (p) {
      setProblem(p)
    }
  }
  if (secret) return <Secret {...secret} />
  return (
    <>
      <Title kind={`Namespace ${ns}`}>New subscription</Title>
      <form class="edit" onSubmit={(e) => void create(e)}>
        <Form draft={draft} set={setDraft} problem={problem} fresh />
        <Loaded load={types}>
          {({ event_types }) => event_types.length > 0 && <p class="hint">Types in the catalogue: {event_types.map((t) => t.type).join(', ')}</p>}
        </Loaded>
        <CodeLine label="Command line" text={cli} />
        <button type="submit" class="primary">Create</button>
      </form>
    </>
  )
}

/** A secret, which is shown once. */
function Secret({ id, secret }: { id: string; secret: string }): JSX.Element {
  return (
    <>
      <Title kind="Subscription">{id}</Title>
      <Section title="Secret">
        <p>Give this secret to the receiver now: it is not shown again. Receivers verify each request with it.</p>
        <CodeLine label="Secret" text={secret} />
        <p><a class="button primary" href={href(`/subscriptions/${encodeURIComponent(id)}`)}>Go on</a></p>
      </Section>
    </>
  )
}
