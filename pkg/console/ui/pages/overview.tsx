import type { JSX } from 'preact'
import { line } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { href, namespace } from '../lib/route.js'
import { Figure, Loaded, Section, Title } from '../parts/basic.js'
import { Table } from '../parts/table.js'
import { columns } from './subscriptions.js'

/** What flows, and what is stuck. */
export function Overview(): JSX.Element {
  const ns = namespace.value
  const load = useLoad(`overview ${ns}`, { cli: line('status', ns && '--ns', ns), every: 2000, run: (api) => api.listHealth({ namespace: ns || undefined, limit: 10 }) })
  return (
    <>
      <Title>Overview</Title>
      <Loaded load={load}>
        {({ counts, subscriptions }) => (
          <>
            <div class="figures">
              {Object.entries(counts).map(([h, n]) => <Figure key={h} name={h.replaceAll('_', ' ')} value={n} href={href('/subscriptions', { health: h })} />)}
            </div>
            <Section title="Worst first"><Table label="Worst subscriptions" rows={subscriptions} columns={columns} id={(s) => s.id} empty="No subscription yet." /></Section>
          </>
        )}
      </Loaded>
    </>
  )
}
