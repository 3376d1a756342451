import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { line, pretty } from '../lib/format.js'
import { usePages } from '../lib/load.js'
import { go, here, namespace, param } from '../lib/route.js'
import { State, Text, Time, Title } from '../parts/basic.js'
import { Field, Filters, Select } from '../parts/form.js'
import { type Column, Pages } from '../parts/table.js'
import { ages, ago } from './events.js'

export const ledgerColumns: Column<T.LedgerEntry>[] = [
  { title: 'When', cell: (e) => <Time at={e.at} /> },
  { title: 'Actor', cell: (e) => <Text>{e.actor}</Text> },
  { title: 'Action', cell: (e) => e.action },
  { title: 'Resource', cell: (e) => <Text>{e.resource}</Text> },
  { title: 'Outcome', cell: (e) => <State of={e.outcome} />, wide: true },
]

/** Changes, newest first, and who made them. */
export function Audit(): JSX.Element {
  const ns = namespace.value
  const [resource, action, actor, since] = [param('resource'), param('action'), param('actor'), param('since')]
  const load = usePages(`audit ${ns} ${resource} ${action} ${actor} ${since}`, {
    cli: line('audit', ns && '--ns', ns, resource && '--resource', resource, action && '--action', action, actor && '--actor', actor, since && '--since', since),
    page: async (api, cursor) => {
      const page = await api.listAudit({ namespace: ns || undefined, resource: resource || undefined, action: action || undefined, actor: actor || undefined, since: ago(since), limit: 50, cursor })
      return { rows: page.entries, next: page.next_cursor }
    },
  })
  return (
    <>
      <Title>Audit</Title>
      <Filters>
        <Field label="Resource" value={resource} set={(v) => go(here({ resource: v || undefined }), true)} />
        <Field label="Action" value={action} set={(v) => go(here({ action: v || undefined }), true)} placeholder="subscription.*" />
        <Field label="Actor" value={actor} set={(v) => go(here({ actor: v || undefined }), true)} />
        <Select label="Since" value={since} set={(v) => go(here({ since: v || undefined }))} options={ages} />
      </Filters>
      <Pages
        label="Changes" load={load} id={(e) => e.id} empty="No change with these filters."
        columns={[...ledgerColumns, { title: 'Changed', cell: (e) => <Changed entry={e} />, wide: true }]}
      />
    </>
  )
}

function Changed({ entry }: { entry: T.LedgerEntry }): JSX.Element {
  const names = [...new Set([...Object.keys(entry.old ?? {}), ...Object.keys(entry.new ?? {})])]
  if (names.length === 0) return <span class="quiet">{entry.error ?? '–'}</span>
  return (
    <details>
      <summary>{names.slice(0, 3).join(', ')}{names.length > 3 ? ', …' : ''}</summary>
      <dl class="changed">
        {names.map((name) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd><del>{pretty(entry.old?.[name] ?? '')}</del> <ins>{pretty(entry.new?.[name] ?? '')}</ins></dd>
          </div>
        ))}
      </dl>
    </details>
  )
}
