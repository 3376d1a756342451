import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { line, pretty } from '../lib/format.js'
import { usePages } from '../lib/load.js'
import { may, oneNamespace } from '../lib/me.js'
import { eventHref, go, here, href, param } from '../lib/route.js'
import { readOnly } from '../lib/session.js'
import { Facts, Payload, Problem, Section, Sentence, Text, Time, Title } from '../parts/basic.js'
import { perform } from '../parts/dialog.js'
import { Field } from '../parts/form.js'
import { Pages } from '../parts/table.js'

/** The event types of a namespace. */
export function Catalogue(): JSX.Element {
  const ns = oneNamespace.value
  const chosen = param('type')
  const load = usePages(`catalogue ${ns}`, {
    cli: line('types', 'ls', '--ns', ns),
    page: async (api, cursor) => {
      const page = await api.listEventTypes({ ns, limit: 100, cursor })
      return { rows: page.event_types, next: page.next_cursor }
    },
  })
  const type = load.value?.find((t) => t.type === chosen)
  return (
    <>
      <Title kind={`Namespace ${ns}`}>Catalogue</Title>
      <Pages
        label="Event types" load={load} id={(t) => t.type} empty="No event type is described yet. `sluice types put` describes one."
        columns={[
          { title: 'Type', cell: (t) => <a href={here({ type: t.type })} aria-current={t.type === chosen ? 'true' : undefined}><Text>{t.type}</Text></a> },
          { title: 'Description', cell: (t) => <Sentence>{t.description}</Sentence>, wide: true },
          { title: 'Schema', cell: (t) => (t.schema === undefined ? 'none' : 'yes') },
          { title: 'Changed', cell: (t) => <Time at={t.updated_at} />, wide: true },
        ]}
      />
      {type && (
        <Section title={type.type}>
          <Facts of={{ Description: <Sentence>{type.description}</Sentence>, 'Summary fields': type.summary_fields?.join(', '), Labels: type.static_labels && Object.entries(type.static_labels).map(([k, v]) => `${k}=${v}`).join(', '), Revision: type.revision }} />
          {type.schema !== undefined && <Payload label="JSON Schema" value={type.schema} />}
          <a href={href('/events', { types: type.type })}>Events of this type</a>
          {may('publish') && !readOnly.value && <Publish key={type.type} ns={ns} type={type} />}
        </Section>
      )}
    </>
  )
}

/** The first example of a schema, or of its properties. */
function example(schema: unknown): unknown {
  const { examples, properties } = (schema ?? {}) as { examples?: unknown[]; properties?: Record<string, { examples?: unknown[]; default?: unknown }> }
  return examples?.[0] ?? Object.fromEntries(Object.entries(properties ?? {}).map(([name, p]) => [name, p.examples?.[0] ?? p.default ?? null]))
}

/** Publishes an event of a type, to try what its subscriptions do. */
function Publish({ ns, type }: { ns: string; type: T.EventType }): JSX.Element {
  const [path, setPath] = useState('/test')
  const [data, setData] = useState(pretty(example(type.schema)))
  const [problem, setProblem] = useState<unknown>()
  const publish = async (event: Event): Promise<void> => {
    event.preventDefault()
    try {
      const body = { path, type: type.type, data: JSON.parse(data) as unknown }
      const done = { name: 'Publish', done: 'The event is stored.', cli: line('pub', path, data, '--type', type.type, '--ns', ns) }
      const { events } = (await perform({ ...done, run: (api) => api.publishEvents({ ns, body }) })) as T.PublishEventsResult
      if (events[0]) go(eventHref(ns, events[0].id))
    } catch (p) {
      setProblem(p)
    }
  }
  return (
    <form class="edit" onSubmit={(e) => void publish(e)}>
      <h3>Publish an example</h3>
      <Field label="Path" value={path} set={setPath} required />
      <Field label="Data" lines={6} value={data} set={setData} />
      <Problem of={problem} />
      <button type="submit">Publish</button>
    </form>
  )
}
