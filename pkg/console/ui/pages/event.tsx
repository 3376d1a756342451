import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { delivering } from '../lib/api.js'
import { counted, line, quoted } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { eventHref, href, streamHref } from '../lib/route.js'
import { CodeLine, Copy, Facts, Loaded, Payload, Section, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { CodeOf, webhookCurl } from '../parts/code.js'
import { ActButton, Dialog } from '../parts/dialog.js'
import { AttemptTable } from './attempts.js'
import { Cascade } from './cascade.js'

/** The story of one event: who published it, what caused it, who got it, and what followed. */
export function Event({ ns, id }: { ns: string; id: string }): JSX.Element {
  const load = useLoad(`event ${ns} ${id}`, {
    cli: line('event', id, '--ns', ns), every: 5000,
    run: async (api) => {
      const [event, story] = await Promise.all([api.getEvent({ ns, event: id }), api.listEventDeliveries({ ns, event: id, limit: 100 })])
      return { event, story }
    },
  })
  return (
    <Loaded load={load}>
      {({ event, story }) => (
        <>
          <Title kind={`Event in ${ns}`} actions={<Copy text={id} label="Copy ID" />}><Text>{id}</Text></Title>
          <p class="lead">{summary(story.deliveries)}</p>
          <Deliveries all={story.deliveries} reload={load.reload} />
          <Section title="Event">
            <Facts of={{
              Type: <Text>{event.type}</Text>, Path: event.path && <a href={streamHref(ns, event.path)}><Text>{event.path}</Text></a>, Published: <Time at={event.time} full />,
              By: event.authid && <><Text>{event.authid}</Text> ({event.authtype})</>, Source: <Text>{event.source}</Text>, Sequence: String(story.event.seq), Subject: event.subject && <Text>{event.subject}</Text>,
              'Caused by': event.causationid && <a href={eventHref(ns, event.causationid)}><Text>{event.causationid}</Text></a>, Correlation: event.correlationid && <Text>{event.correlationid}</Text>,
            }} />
            <Payload label="Data" value={event.data ?? event.data_base64 ?? ''} />
          </Section>
          <Section title="Causes and consequences">
            <Cascade ns={ns} story={story} />
          </Section>
          <Section title="As CloudEvent"><Payload label="CloudEvent" value={event} /></Section>
        </>
      )}
    </Loaded>
  )
}

/** One sentence for all deliveries. */
function summary(all: T.EventDelivery[]): string {
  if (all.length === 0) return 'No subscription that you manage wants this event.'
  const states = new Map<string, number>()
  for (const d of all) states.set(d.state, (states.get(d.state) ?? 0) + 1)
  return `${counted(all.length, 'subscription')}: ${[...states].map(([state, n]) => `${n} ${state.replaceAll('_', ' ')}`).join(', ')}.`
}

function Deliveries({ all, reload }: { all: T.EventDelivery[]; reload: () => void }): JSX.Element {
  const wanted = all.filter((d) => d.state !== 'not_wanted')
  const others = all.filter((d) => d.state === 'not_wanted')
  return (
    <Section title="Deliveries">
      {wanted.map((d) => <Delivery key={d.subscription} of={d} reload={reload} />)}
      {others.length > 0 && (
        <details>
          <summary>{counted(others.length, 'subscription')} without interest in it</summary>
          {others.map((d) => <Delivery key={d.subscription} of={d} reload={reload} />)}
        </details>
      )}
    </Section>
  )
}

function Delivery({ of: d, reload }: { of: T.EventDelivery; reload: () => void }): JSX.Element {
  return (
    <article class="delivery">
      <h3><a href={href(`/subscriptions/${encodeURIComponent(d.subscription)}`)}>{d.subscription}</a> <State of={d.state} /></h3>
      {d.explanation && <p><Sentence>{d.explanation}</Sentence></p>}
      {d.runs.map((run) => (
        <div key={run.replay ?? 'original'}>
          {run.kind !== 'original' && <h4>{run.kind === 'redrive' ? 'Redrive' : 'Replay'} {run.replay}</h4>}
          <AttemptTable attempts={run.attempts} />
        </div>
      ))}
      {d.state !== 'not_wanted' && (
        <div class="actions">
          <ActButton act={{ name: 'Send again', done: `The event is sent to ${d.subscription} again.`, cli: line('deliveries', d.subscription, d.event_id, '--retry'), run: (api) => api.retryDelivery({ id: d.subscription, event: d.event_id }) }} then={reload} />
          <Signature sub={d.subscription} attempts={d.runs.flatMap((r) => r.attempts)} />
        </div>
      )}
    </article>
  )
}

/** The last request in detail: what was sent, what came back, and how the receiver verifies it. */
function Signature({ sub, attempts }: { sub: string; attempts: T.Attempt[] }): JSX.Element | null {
  const [open, setOpen] = useState(false)
  const last = attempts.at(-1)
  if (!last) return null
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Request and response</button>
      {open && (
        <Dialog title={`Attempt ${last.number} of ${sub}`} close={() => setOpen(false)}>
          <Request sub={sub} attempt={last} />
        </Dialog>
      )}
    </>
  )
}

function Request({ sub, attempt }: { sub: string; attempt: T.Attempt }): JSX.Element {
  const load = useLoad(`request ${sub} ${attempt.event_id} ${attempt.started_at}`, {
    cli: line('deliveries', sub, attempt.event_id),
    run: async (api) => {
      const record = await delivering(api, sub)
      const [delivery, event] = await Promise.all([api.getDelivery({ id: sub, event: attempt.event_id }), api.getEvent({ ns: record.namespace, event: attempt.event_id }).catch(() => undefined)])
      return { sub: record, delivery, event }
    },
  })
  const seconds = Math.floor(Date.parse(attempt.started_at) / 1000)
  return (
    <Loaded load={load}>
      {({ sub: record, delivery, event }) => {
        const whole = delivery.attempts?.find((a) => a.started_at === attempt.started_at) ?? attempt
        const scheme = record.policy.signature?.scheme ?? 'standard'
        return (
          <>
            <Facts of={{
              To: <Text>{record.endpoint.url ?? record.endpoint.exec?.join(' ')}</Text>, Sent: <Time at={attempt.started_at} full />, Outcome: <State of={attempt.outcome} />, Status: whole.status ? `HTTP ${whole.status}` : undefined,
              Error: whole.error && <Text>{whole.error}</Text>, 'SHA-256 of the body': whole.payload_hash && <Text>{whole.payload_hash}</Text>,
            }} />
            {whole.response && <Payload label="Response" value={whole.response} />}
            {whole.output && <Payload label="Output" value={whole.output} />}
            <h3>How the receiver verifies it</h3>
            <ol>
              <li>Take the raw body. Its SHA-256 must be the one above.</li>
              <li>Join <code>webhook-id</code> ({attempt.event_id}), <code>webhook-timestamp</code> ({seconds} or a second later) and the body with dots.</li>
              <li>Sign that with the secret (scheme {scheme}{record.secret_hint ? `, the one that ends with ${record.secret_hint}` : ''}), and compare with <code>webhook-signature</code>.</li>
              <li>Refuse timestamps that are older than five minutes.</li>
            </ol>
            {event && record.endpoint.url && <CodeLine label="The same event to the endpoint, unsigned" text={webhookCurl(record.endpoint.url, event, attempt.event_id)} />}
            <CodeLine label="Verify a request" text={`sluice verify request.http --secret ${quoted('whsec_…')}`} />
            <h3>Send it again</h3>
            <CodeOf code={{ cli: line('deliveries', sub, attempt.event_id, '--retry'), calls: [{ method: 'POST', path: `/v1/subscriptions/${encodeURIComponent(sub)}/deliveries/${encodeURIComponent(attempt.event_id)}/retry` }] }} />
          </>
        )
      }}
    </Loaded>
  )
}
