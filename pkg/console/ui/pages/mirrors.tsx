import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { count, line, span } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { namespace } from '../lib/route.js'
import { Loaded, Section, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { ActButton } from '../parts/dialog.js'
import { Table } from '../parts/table.js'

/** Copies of namespaces, and how far they have come. */
export function Mirrors(): JSX.Element {
  const ns = namespace.value
  const load = useLoad(`mirrors ${ns}`, {
    cli: line('mirror', 'ls', ns && '--ns', ns), every: 5000,
    run: async (api) => {
      const page = await api.listSubscriptions({ mode: 'mirror', namespace: ns || undefined, limit: 100 })
      return (page.subscriptions as T.ListedMirror[]).map((m) => ({ m, status: m.status }))
    },
  })
  return (
    <>
      <Title>Mirrors</Title>
      <Loaded load={load}>
        {(all) => (
          <>
            <Table
              label="Mirrors" rows={all} id={({ m }) => m.id} empty="No mirror. `sluice mirror create` makes a copy of a namespace."
              columns={[
                { title: 'Mirror', cell: ({ m }) => m.id },
                { title: 'State', cell: ({ status }) => <State of={status.state} /> },
                { title: 'Source', cell: ({ m }) => <Text>{m.source}</Text>, wide: true },
                { title: 'Into', cell: ({ m }) => m.namespace, wide: true },
                { title: 'Behind', align: 'right', cell: ({ status }) => `${count(status.lag_items)} · ${span(status.lag_seconds)}` },
                { title: 'Entries', align: 'right', cell: ({ status }) => count(status.mirrored_count), wide: true },
                { title: 'Gaps', align: 'right', cell: ({ status }) => count(status.gap_count), wide: true },
                { title: 'Last sync', cell: ({ status }) => <Time at={status.last_sync_at} /> },
                { title: 'Act', cell: ({ m }) => m.state === 'active'
                  ? <ActButton act={{ name: 'Suspend', done: `${m.id} is suspended.`, cli: line('mirror', 'suspend', m.id), run: (api) => api.suspendMirror({ id: m.id }), undo: { name: 'Resume', done: `${m.id} goes on.`, cli: line('mirror', 'resume', m.id), run: (api) => api.resumeSubscription({ id: m.id }) } }} then={load.reload} />
                  : <ActButton act={{ name: 'Resume', done: `${m.id} goes on.`, cli: line('mirror', 'resume', m.id), run: (api) => api.resumeSubscription({ id: m.id }) }} then={load.reload} /> },
              ]}
            />
            {all.map(({ m, status }) => <Section key={m.id} title={m.id}><p><Sentence>{status.explanation}</Sentence></p></Section>)}
          </>
        )}
      </Loaded>
    </>
  )
}
