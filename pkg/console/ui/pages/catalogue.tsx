import type { JSX } from 'preact'
import { line } from '../lib/format.js'
import { usePages } from '../lib/load.js'
import { oneNamespace } from '../lib/me.js'
import { here, href, param } from '../lib/route.js'
import { Facts, Payload, Section, Sentence, Text, Time, Title } from '../parts/basic.js'
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
        </Section>
      )}
    </>
  )
}
