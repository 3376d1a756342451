import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { api, delivering, statusOf } from '../lib/api.js'
import { count, counted, line, pretty, span } from '../lib/format.js'
import { type Load, useLoad, usePages } from '../lib/load.js'
import { may } from '../lib/me.js'
import { eventHref, go, href, param, streamHref } from '../lib/route.js'
import { CodeLine, Facts, Figure, Loaded, Payload, Problem, Section, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { type Act, ActButton, AskButton, Dialog, perform } from '../parts/dialog.js'
import { Field, Select } from '../parts/form.js'
import { Pages, Table } from '../parts/table.js'
import { Tabs } from '../parts/tabs.js'
import { AttemptTable } from './attempts.js'
import { Deliveries } from './deliveries.js'
import { Chart } from './chart.js'
import { type Draft, Form, changes, draftOf, flags } from './subscriptions.js'

export const live = 3000

export function Subscription({ id }: { id: string }): JSX.Element {
  const load = useLoad(`subscription ${id}`, {
    cli: line('sub', 'show', id), every: live,
    run: async (api) => {
      const sub = await delivering(api, id)
      return { sub, status: await statusOf(api, id) }
    },
  })
  return (
    <Loaded load={load}>
      {({ sub, status }) => (
        <>
          <Title kind={`Subscription in ${sub.namespace}`} actions={<Actions sub={sub} status={status} reload={load.reload} />}>{id}</Title>
          <p class="lead"><State of={sub.state} /> {status.breaker !== 'closed' && <State of={`breaker ${status.breaker}`} tone="bad" />} <Sentence>{sub.reason ?? sub.description}</Sentence></p>
          <Tabs label="Parts of the subscription" of={[['status', 'Status'], ['deliveries', 'Deliveries'], ['dead', `Dead letters (${count(status.dead_letters ?? 0)})`], ['replays', 'Replays'], ...(sub.mode === 'wake' ? [['consumers', 'Consumers'] as [string, string]] : []), ['settings', 'Settings']]} />
          <Part sub={sub} status={status} load={load} />
        </>
      )}
    </Loaded>
  )
}

interface Whole {
  sub: T.Subscription
  status: T.Status
}

function Part({ sub, status, load }: Whole & { load: Load<Whole> }): JSX.Element {
  switch (param('tab')) {
    case 'deliveries':
      return <Deliveries id={sub.id} ns={sub.namespace} />
    case 'dead':
      return <DeadLetters sub={sub} total={status.dead_letters} />
    case 'replays':
      return <Replays sub={sub} />
    case 'consumers':
      return <Consumers id={sub.id} />
    case 'settings':
      return <Settings sub={sub} reload={load.reload} />
  }
  return <StatusPart sub={sub} status={status} reload={load.reload} />
}

function StatusPart({ sub, status, reload }: Whole & { reload: () => void }): JSX.Element {
  return (
    <>
      <div class="figures">
        <Figure name="Oldest undelivered" value={status.lag_seconds >= 1 ? span(status.lag_seconds) : 'none waits'} tone={status.lag_seconds >= 60 ? 'warn' : undefined} />
        <Figure name="Undelivered" value={count(status.undelivered ?? status.backlog ?? 0)} note={`${count(status.in_flight ?? 0)} in flight`} />
        <Figure name="Parked lanes" value={count(status.parked ?? 0)} note={status.held ? `${count(status.held)} held` : undefined} tone={status.held ? 'bad' : undefined} />
        <Figure name="Dead letters" value={count(status.dead_letters ?? 0)} tone={status.dead_letters ? 'warn' : undefined} href={href(`/subscriptions/${encodeURIComponent(sub.id)}`, { tab: 'dead' })} />
      </div>
      {status.source_error && <p class="problem" role="alert"><Sentence>{status.source_error}</Sentence></p>}
      {status.next_attempt_at && <p>The endpoint failed again and again; the next probe is due <Time at={status.next_attempt_at} />.</p>}
      <Chart id={sub.id} />
      <Section title="Lanes that wait" actions={(status.parked ?? 0) > 0 && <ActButton act={retryLanes(sub.id)} then={reload} />}>
        <Table
          label="Lanes that wait" rows={status.parked_lanes ?? []} id={(l) => l.lane} empty="No lane waits: every path is delivered in order."
          columns={[
            { title: 'Path', cell: (l) => <Text>{l.path ?? l.lane}</Text> },
            { title: 'First event', cell: (l) => (l.event_id ? <a href={eventHref(sub.namespace, l.event_id)}><Text>{l.event_id}</Text></a> : `sequence ${l.from_seq}`) },
            { title: 'Since', cell: (l) => <Time at={l.first_failed_at} /> },
            { title: 'Attempts', align: 'right', cell: (l) => count(l.attempts) },
            { title: 'Next attempt', cell: (l) => (l.held ? <State of="held" /> : l.next_at ? <Time at={l.next_at} /> : 'now') },
            { title: 'Last error', cell: (l) => <Sentence>{l.last_error}</Sentence>, wide: true },
          ]}
        />
      </Section>
    </>
  )
}

export function retryLanes(id: string): Act {
  return { name: 'Retry all now', done: 'All waiting lanes are tried again.', cli: line('sub', 'retry', id), run: (api) => api.retryLanes({ id }) }
}

export function pause(id: string): Act {
  const resume: Act = { name: 'Resume', done: `Deliveries to ${id} go on.`, cli: line('sub', 'resume', id), run: (api) => api.resumeSubscription({ id }) }
  return { name: 'Pause', done: `${id} is paused: events wait.`, cli: line('sub', 'pause', id), run: (api) => api.pauseSubscription({ id }), undo: resume }
}

export function resume(id: string): Act {
  return { name: 'Resume', done: `Deliveries to ${id} go on.`, cli: line('sub', 'resume', id), run: (api) => api.resumeSubscription({ id }), undo: { ...pause(id), undo: undefined } }
}

export function probe(id: string): Act {
  return { name: 'Probe now', done: `The endpoint of ${id} is probed.`, cli: line('sub', 'probe', id), run: (api) => api.probeSubscription({ id }) }
}

function Actions({ sub, status, reload }: Whole & { reload: () => void }): JSX.Element {
  const { id } = sub
  const [testing, setTesting] = useState(false)
  return (
    <>
      {sub.state === 'active' ? <ActButton act={pause(id)} then={reload} /> : sub.state !== 'cancelled' && <ActButton act={resume(id)} then={reload} primary />}
      {status.breaker !== 'closed' && <ActButton act={probe(id)} then={reload} />}
      {may('admin') && <a class="button" href={href('/audit', { resource: id })}>Changes</a>}
      {sub.mode === 'push' && <button type="button" onClick={() => setTesting(true)}>Send test…</button>}
      {testing && <Dialog title="Test event" close={() => setTesting(false)}><Test sub={sub} /></Dialog>}
    </>
  )
}

/** Sends a sample, or the example of a type in the catalogue. */
function Test({ sub }: { sub: T.Subscription }): JSX.Element {
  const { id, namespace: ns } = sub
  const [type, setType] = useState('')
  const [test, setTest] = useState<T.Attempt>()
  const types = useLoad(`examples ${ns}`, { cli: line('types', 'ls', '--ns', ns), run: (api) => api.listEventTypes({ ns, limit: 1000 }) })
  const named = types.value?.event_types.filter((t) => Array.isArray((t.schema as { examples?: unknown } | undefined)?.examples)) ?? []
  const act: Act = { name: 'Send', done: 'A test event was sent.', cli: line('sub', 'test', id, type && '--type', type), run: (api) => api.testSubscription({ id, body: type ? { type } : {} }) }
  return (
    <>
      <Select label="Event" value={type} set={setType} options={[['', 'A sample'], ...named.map((t): [string, string] => [t.type, `Example of ${t.type}`])]} />
      <ActButton primary act={act} then={(result) => setTest(result as T.Attempt)} />
      {test && <AttemptTable attempts={[test]} />}
      {test?.response && <Payload label="Response" value={test.response} />}
    </>
  )
}

function DeadLetters({ sub, total }: { sub: T.Subscription; total: number }): JSX.Element {
  const { id } = sub
  const since = param('since')
  const load = usePages(`dead ${id} ${since}`, {
    cli: line('dead', 'ls', id, since && '--since', since),
    page: async (api, cursor) => {
      const page = await api.listDeadLetters({ id, limit: 50, cursor, since: since || undefined })
      return { rows: page.dead_letters, next: page.next_cursor }
    },
  })
  const redrive: Act = { name: 'Redrive all', done: 'The dead letters are sent again.', cli: line('dead', 'redrive', id, '--all'), run: (api) => api.redriveDeadLetters({ id, body: { all: true } }) }
  const discard: Act = { name: 'Discard all', done: 'The dead letters are gone.', cli: line('dead', 'rm', id, '--all', '--yes'), run: (api) => api.discardDeadLetters({ id, all: true }) }
  const ask = total > 0 && (
    <>
      <AskButton act={redrive} question={`Send the dead letters of ${id} again, in order of their paths?`} count={() => Promise.resolve(`${counted(total, 'event')} will be sent again.`)} then={load.reload} />
      <AskButton act={discard} danger question={`Discard the dead letters of ${id}? The events stay in the log; the attempts that failed are forgotten.`} count={() => Promise.resolve(`${counted(total, 'dead letter')} will be gone for good.`)} then={load.reload} />
    </>
  )
  return (
    <Section title="Dead letters" actions={ask}>
      <Pages
        label="Dead letters" load={load} id={(d) => `${d.seq} ${d.replay ?? ''}`} empty="No dead letters: nothing failed for good."
        columns={[
          { title: 'Event', cell: (d) => (d.event_id ? <a href={eventHref(d.namespace, d.event_id)}><Text>{d.event_id}</Text></a> : `sequence ${d.seq}`) },
          { title: 'Path', cell: (d) => <Text>{d.path}</Text>, wide: true },
          { title: 'Reason', cell: (d) => <State of={d.reason} tone="bad" /> },
          { title: 'Attempts', align: 'right', cell: (d) => count(d.attempts), wide: true },
          { title: 'Last answer', cell: (d) => <Sentence>{d.last_status ? `HTTP ${d.last_status}` : d.last_error}</Sentence>, wide: true },
          { title: 'When', cell: (d) => <Time at={d.at} /> },
          { title: 'Act', cell: (d) => d.redrivable && <ActButton act={{ name: 'Redrive', done: `${d.event_id} is sent again.`, cli: line('dead', 'redrive', id, d.event_id), run: (api) => api.redriveDeadLetters({ id, body: { ids: [d.event_id] } }) }} then={load.reload} /> },
        ]}
      />
    </Section>
  )
}

function Replays({ sub }: { sub: T.Subscription }): JSX.Element {
  const { id } = sub
  const [from, setFrom] = useState('1h')
  const [to, setTo] = useState('')
  const load = useLoad(`replays ${id}`, { cli: line('sub', 'replays', id), every: live, run: (api) => api.listReplays({ id }) })
  const range = { from, ...(to ? { to } : {}) }
  const act: Act = { name: 'Replay', done: 'The replay runs.', cli: line('sub', 'replay', id, '--from', from, to && '--to', to, '--yes'), run: (api) => api.startReplay({ id, body: range }) }
  return (
    <>
      <Section title="Replay">
        <form class="edit" onSubmit={(e) => e.preventDefault()}>
          <div class="columns">
            <Field label="From" hint="An age such as 24h, a time, a sequence or an event ID." value={from} set={setFrom} />
            <Field label="To" hint="Empty: the newest event." value={to} set={setTo} />
          </div>
          <AskButton
            act={act} then={load.reload} question={`Send the events of ${id} from ${from} to ${to || 'now'} again?`}
            count={async (api) => {
              const trial = (await api.startReplay({ id, body: { ...range, dry_run: true } })) as T.StartReplayResult
              return `${trial.exact ? '' : 'About '}${counted(trial.count, 'event')} will be sent again.`
            }}
          />
        </form>
      </Section>
      <Section title="Replays so far">
        <Loaded load={load}>
          {({ replays }) => (
            <Table
              label="Replays" rows={replays} id={(r) => r.id} empty="No replay was started."
              columns={[
                { title: 'Replay', cell: (r) => r.id },
                { title: 'Kind', cell: (r) => r.kind.replaceAll('_', ' '), wide: true },
                { title: 'State', cell: (r) => <State of={r.state} /> },
                { title: 'Delivered', align: 'right', cell: (r) => count(r.delivered) },
                { title: 'Dead', align: 'right', cell: (r) => count(r.dead), wide: true },
                { title: 'Started', cell: (r) => <><Time at={r.created_at} /> by <Text>{r.created_by}</Text></>, wide: true },
                { title: 'Act', cell: (r) => r.state === 'running' && <ActButton act={{ name: 'Cancel', done: 'The replay was cancelled.', cli: line('sub', 'replays', id, r.id, '--cancel'), run: (api) => api.cancelReplay({ id, replay: r.id }) }} then={load.reload} /> },
              ]}
            />
          )}
        </Loaded>
      </Section>
    </>
  )
}

function Consumers({ id }: { id: string }): JSX.Element {
  const load = usePages(`consumers ${id}`, {
    cli: line('consumers', id),
    page: async (api, cursor) => {
      const page = await api.listConsumers({ id, limit: 50, cursor })
      return { rows: page.consumers, next: page.next_cursor }
    },
  })
  return (
    <Section title="Consumers that are woken">
      <Pages
        label="Consumers" load={load} id={(c) => c.id} empty="No stream has woken a consumer yet."
        columns={[
          { title: 'Stream', cell: (c) => <a href={streamHref(c.namespace, c.path)}><Text>{c.path}</Text></a> },
          { title: 'State', cell: (c) => <State of={c.state} /> },
          { title: 'Epoch', align: 'right', cell: (c) => count(c.epoch) },
          { title: 'Lease until', cell: (c) => <Time at={c.live_until} />, wide: true },
          { title: 'Woken', cell: (c) => <Time at={c.woken_at} />, wide: true },
          { title: 'Failures', align: 'right', cell: (c) => count(c.failures) },
          { title: 'Last error', cell: (c) => <Sentence>{c.last_error}</Sentence>, wide: true },
        ]}
      />
    </Section>
  )
}

function Settings({ sub: loaded, reload }: { sub: T.Subscription; reload: () => void }): JSX.Element {
  const [saved, setSaved] = useState<T.Subscription>()
  const sub = saved && saved.revision > loaded.revision ? saved : loaded
  const { id } = sub
  const then = (result: T.Subscription): void => {
    setSaved(result)
    reload()
  }
  return (
    <>
      <Section title="Settings">
        {may('admin')
          ? <><Edit sub={sub} then={then} /><EditAsJSON sub={sub} then={then} /></>
          : <><Facts of={{ Endpoint: <Text>{sub.endpoint.url}</Text>, Pattern: <Text>{sub.pattern}</Text>, Types: sub.filter?.types?.join(', '), Filter: sub.filter?.cel && <Text>{sub.filter.cel}</Text>, Timeout: sub.policy.timeout, Order: sub.policy.ordering }} /><p class="quiet">Only admins change these. With another endpoint or pattern, create another subscription and delete this one.</p></>}
      </Section>
      <Section title="Would it want an event?"><Match id={id} /></Section>
      <Section title="Secret"><Rotate sub={sub} /></Section>
      <Section title="Position">
        <Seek id={id} reload={reload} />
      </Section>
      <Section title="Record">
        <Facts of={{ Created: <><Time at={sub.created_at} full /> by <Text>{sub.created_by}</Text></>, Grant: sub.grant, Revision: sub.revision, Start: sub.start, 'Replay window': sub.replay_window }} />
        <Payload label="Record" value={sub} />
      </Section>
      <Section title="Delete">
        <AskButton
          danger act={{ name: 'Delete', done: `${id} is deleted.`, cli: line('sub', 'rm', id, '--yes'), run: (api) => api.deleteSubscription({ id }) }}
          question={`Delete ${id}? Events that wait are not delivered, its dead letters and attempts are gone. There is no undo.`}
          count={async (api) => {
            const status = await statusOf(api, id)
            return `${counted(status.undelivered ?? status.backlog ?? 0, 'undelivered event')} and ${counted(status.dead_letters ?? 0, 'dead letter')} go.`
          }}
          then={() => go(href('/subscriptions'))}
        />
      </Section>
    </>
  )
}

interface Editor {
  sub: T.Subscription
  /** Is told what was saved. */
  then: (saved: T.Subscription) => void
}

/** Gives a draft up: the way on if the subscription was changed elsewhere since it was begun. */
function Discard({ begin, tell }: { begin: (draft: undefined) => void; tell: (problem: undefined) => void }): JSX.Element {
  const discard = (): void => {
    begin(undefined)
    tell(undefined)
  }
  return <button type="button" onClick={discard}>Discard changes</button>
}

/** Edits what the form has no fields for, as a merge patch (RFC 7396). */
function EditAsJSON({ sub, then }: Editor): JSX.Element {
  const [begun, setBegun] = useState<{ text: string; revision: number }>()
  const { text, revision } = begun ?? { text: pretty({ policy: sub.policy, metadata: sub.metadata ?? {} }), revision: sub.revision }
  const [problem, setProblem] = useState<unknown>()
  const save = async (event: Event): Promise<void> => {
    event.preventDefault()
    setProblem(undefined)
    try {
      const body = JSON.parse(text) as Record<string, unknown>
      const result = await perform({ name: 'Save', done: 'The settings are saved.', cli: line('sub', 'edit', sub.id, '--file', 'patch.json'), run: (client) => client.patchSubscription({ id: sub.id, body, if_match: `"${revision}"` }) })
      setBegun(undefined)
      then(result as T.Subscription)
    } catch (p) {
      setProblem(p)
    }
  }
  return (
    <details>
      <summary>All settings of the policy, as JSON</summary>
      <form class="edit" onSubmit={(e) => void save(e)}>
        <Field label="Changes" hint="null removes a setting. The form above shows the most common ones." lines={14} value={text} set={(typed) => setBegun({ text: typed, revision })} />
        <Problem of={problem} />
        <button type="submit">Save the JSON</button>
        {begun && <Discard begin={setBegun} tell={setProblem} />}
      </form>
    </details>
  )
}

/** Asks whether the pattern and the filter match an event, and why not. Nothing is sent. */
function Match({ id }: { id: string }): JSX.Element {
  const [event, setEvent] = useState('')
  const [answer, setAnswer] = useState<T.MatchSubscriptionResult>()
  const [problem, setProblem] = useState<unknown>()
  const ask = async (e: Event): Promise<void> => {
    e.preventDefault()
    setAnswer(undefined)
    setProblem(undefined)
    await api().matchSubscription({ id, body: { event_id: event } }).then(setAnswer, setProblem)
  }
  return (
    <form class="edit" onSubmit={(e) => void ask(e)}>
      <Field label="Event" hint="The ID or the sequence of a stored event." value={event} set={setEvent} required />
      <button type="submit">Ask</button>
      <Problem of={problem} />
      {answer && (
        <div role="status">
          <p><State of={answer.matches ? 'matches' : 'does not match'} tone={answer.matches ? 'good' : 'warn'} /> <Sentence>{answer.explanation}</Sentence></p>
          {answer.warnings.map((w) => <p key={w}><Sentence>{w}</Sentence></p>)}
          {answer.body && <Payload label="Body" value={answer.body} />}
          <CodeLine label="Command line" text={line('sub', 'test', id, '--event', event)} />
        </div>
      )}
    </form>
  )
}

/** Edits the most common settings. The page loads again meanwhile: a draft is compared with what it began from. */
function Edit({ sub, then }: Editor): JSX.Element {
  const [begun, setBegun] = useState<{ before: Draft; draft: Draft; revision: number }>()
  const now = draftOf(sub)
  const { before, draft, revision } = begun ?? { before: now, draft: now, revision: sub.revision }
  const [problem, setProblem] = useState<unknown>()
  const patch = changes(before, draft)
  const cli = line('sub', 'edit', sub.id, ...flags(before, draft))
  const save = async (event: Event): Promise<void> => {
    event.preventDefault()
    setProblem(undefined)
    await perform({ name: 'Save', done: 'The settings are saved.', cli, run: (api) => api.patchSubscription({ id: sub.id, body: patch, if_match: `"${revision}"` }) }).then((result) => {
      const saved = result as T.Subscription
      setBegun((latest) => (latest && latest.draft !== draft ? { before: draftOf(saved), draft: latest.draft, revision: saved.revision } : undefined)) // typed meanwhile
      then(saved)
    }, setProblem)
  }
  const changed = Object.keys(patch).length > 0
  return (
    <form class="edit" onSubmit={(e) => void save(e)}>
      <Form draft={draft} set={(typed) => setBegun({ before, draft: typed, revision })} problem={problem} />
      {changed && <CodeLine label="Command line" text={cli} />}
      <button type="submit" class="primary" disabled={!changed}>Save</button>
      {begun && <Discard begin={setBegun} tell={setProblem} />}
    </form>
  )
}

function Rotate({ sub }: { sub: T.Subscription }): JSX.Element {
  const [secret, setSecret] = useState('')
  return (
    <>
      <Facts of={{ 'Ends with': sub.secret_hint ?? '–', Scheme: sub.policy.signature?.scheme ?? 'standard' }} />
      {secret
        ? <><p>Give this secret to the receiver now: it is not shown again.</p><CodeLine label="New secret" text={secret} /></>
        : <AskButton act={{ name: 'Rotate', done: 'The secret is a new one.', cli: line('sub', 'rotate', sub.id, '--yes'), run: (api) => api.rotateSecret({ id: sub.id }) }} question="Make a new secret? Requests are signed with both for 24 hours, so that the receiver has time to change." then={(result) => setSecret((result as T.SubscriptionWithSecret).secret ?? '')} />}
    </>
  )
}

function Seek({ id, reload }: { id: string; reload: () => void }): JSX.Element {
  const [to, setTo] = useState('new')
  return (
    <form class="edit" onSubmit={(e) => e.preventDefault()}>
      <Field label="Move to" hint="new, all, an age such as 10m, a time, a sequence or an event ID." value={to} set={setTo} />
      <AskButton danger act={{ name: 'Seek', done: `${id} goes on at ${to}.`, cli: line('sub', 'seek', id, to, '--yes'), run: (api) => api.seekSubscription({ id, body: { to } }) }} question={`Move ${id} to ${to}? Events before it that wait are skipped; events behind it that were delivered are sent again.`} then={reload} count={async (api) => {
        const status = await statusOf(api, id)
        return `${counted(status.undelivered ?? status.backlog ?? 0, 'event')} wait now.`
      }} />
    </form>
  )
}

