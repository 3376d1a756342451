import type { JSX } from 'preact'
import { bytes, count, line } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { here, param } from '../lib/route.js'
import { Facts, Loaded, Section, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { ActButton } from '../parts/dialog.js'
import { Table } from '../parts/table.js'

/** The server itself: what doctor finds, its store, namespaces, keys, modules and settings. */
export function System(): JSX.Element {
  return (
    <>
      <Title>System</Title>
      <Health />
      <Namespaces />
      <Keys />
      <Modules />
      <Settings />
    </>
  )
}

function Health(): JSX.Element {
  const load = useLoad('storage', {
    cli: line('doctor'), every: 5000,
    run: async (api) => ({ storage: await api.getStorage(), capabilities: await api.getCapabilities(), sealing: await api.getSealing(), producers: await api.listUnsafeProducers({ limit: 100 }) }),
  })
  return (
    <Section title="Health" actions={<ActButton act={{ name: 'Verify everything stored', done: 'The server reads everything it has stored.', cli: line('doctor', '--deep'), run: (api) => api.verifyStorage() }} then={load.reload} />}>
      <Loaded load={load}>
        {({ storage, capabilities, sealing, producers }) => (
          <>
            <Facts of={{
              Version: capabilities.version, Store: <State of={storage.level} />, Used: `${bytes(storage.used_bytes)}${storage.limit_bytes ? ` of ${bytes(storage.limit_bytes)}` : ''}`,
              'Free on disk': storage.free_bytes === undefined ? undefined : bytes(storage.free_bytes), 'Prefix on NATS': capabilities.nats.prefix || 'none',
              Secrets: sealing.plain > 0 ? <State of={`${sealing.plain} records are not sealed`} tone="bad" /> : 'sealed',
              Verification: storage.verification && (storage.verification.ended_at ? <>ended <Time at={storage.verification.ended_at} /></> : `${count(storage.verification.read)} of ${count(storage.verification.total)} read`),
            }} />
            {storage.problem && <p class="problem" role="alert"><Sentence>{storage.problem}</Sentence></p>}
            {(storage.missing ?? []).map((name) => <p class="problem" role="alert" key={name}>Missing in NATS: {name}</p>)}
            {(storage.damage ?? []).length > 0 && (
              <Table
                label="Damage" rows={storage.damage ?? []} id={(d) => `${d.stream} ${d.from ?? ''} ${d.key ?? ''}`} empty=""
                columns={[
                  { title: 'Stream', cell: (d) => d.stream },
                  { title: 'Damage', cell: (d) => <State of={d.kind} tone="bad" /> },
                  { title: 'Where', cell: (d) => <Text>{d.key ?? `${d.from ?? ''} to ${d.to ?? ''}`}</Text> },
                  { title: 'Found', cell: (d) => <Time at={d.found_at} /> },
                ]}
              />
            )}
            {producers.producers.length > 0 && (
              <Table
                label="Unsafe producers" rows={producers.producers} id={(p) => p.producer} empty=""
                columns={[
                  { title: 'Unsafe producer', cell: (p) => <Text>{p.producer}</Text> },
                  { title: 'Act', cell: (p) => <ActButton act={{ name: 'Clear', done: `${p.producer} may publish again.`, cli: line('producers', 'clear', p.producer), run: (api) => api.clearUnsafeProducer({ producer: p.producer }) }} then={load.reload} /> },
                ]}
              />
            )}
          </>
        )}
      </Loaded>
    </Section>
  )
}

function Namespaces(): JSX.Element {
  const load = useLoad('namespaces', { cli: line('ns', 'ls'), run: (api) => api.listNamespaces({ limit: 1000 }) })
  return (
    <Section title="Namespaces">
      <Loaded load={load}>
        {({ namespaces }) => (
          <Table
            label="Namespaces" rows={namespaces} id={(n) => n.name} empty="No namespace."
            columns={[
              { title: 'Namespace', cell: (n) => n.name },
              { title: 'Events', align: 'right', cell: (n) => count(n.usage?.events ?? 0) },
              { title: 'Size', align: 'right', cell: (n) => bytes(n.usage?.bytes ?? 0) },
              { title: 'Kept', cell: (n) => `${n.retention.max_age ?? 'default'}${n.retention.max_bytes ? `, ${bytes(n.retention.max_bytes)}` : ''}`, wide: true },
              { title: 'Catalogue', cell: (n) => n.catalogue, wide: true },
              { title: 'Label', cell: (n) => n.label?.level ?? '–', wide: true },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}

function Keys(): JSX.Element {
  const load = useLoad('keys', { cli: line('keys', 'ls'), run: (api) => api.listKeys() })
  return (
    <Section title="Signing keys">
      <Loaded load={load}>
        {({ keys }) => (
          <Table
            label="Signing keys" rows={keys} id={(k) => `${k.use} ${k.id}`} empty="No key."
            columns={[
              { title: 'Key', cell: (k) => k.id },
              { title: 'Use', cell: (k) => k.use },
              { title: 'Made', cell: (k) => <Time at={k.created_at} /> },
              { title: 'Retires', cell: (k) => (k.retires_at ? <Time at={k.retires_at} /> : 'signs now') },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}

function Modules(): JSX.Element {
  const load = useLoad('modules', { cli: line('module', 'ls'), run: (api) => api.listModules() })
  return (
    <Section title="Modules">
      <Loaded load={load}>
        {({ modules, host }) => (
          <>
            {host?.problem && <p class="problem"><Sentence>{host.problem}</Sentence></p>}
            <Table
              label="Modules" rows={modules} id={(m) => m.name} empty="No module on this server."
              columns={[
                { title: 'Module', cell: (m) => <Text>{m.name}</Text> },
                { title: 'State', cell: (m) => <State of={m.state} /> },
                { title: 'Approved by', cell: (m) => <Text>{m.approved_by}</Text>, wide: true },
                { title: 'Reason', cell: (m) => <Sentence>{m.reason}</Sentence> },
              ]}
            />
          </>
        )}
      </Loaded>
    </Section>
  )
}

/** The settings of the server that answers: those that differ from their defaults, or all. */
function Settings(): JSX.Element {
  const all = param('settings') === 'all'
  const load = useLoad('settings', { cli: line('settings', !all && '--changed'), run: (api) => api.listSettings() })
  const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
  return (
    <Section title="Settings" actions={<a class="button" href={here({ settings: all ? undefined : 'all' })}>{all ? 'Show changed settings' : 'Show all settings'}</a>}>
      <Loaded load={load}>
        {({ settings }) => (
          <Table
            label="Settings" rows={settings.filter((s) => all || s.changed)} id={(s) => s.name} empty="All settings have their defaults."
            columns={[
              { title: 'Setting', cell: (s) => s.name },
              { title: 'Value', cell: (s) => <Text>{text(s.value)}</Text> },
              { title: 'Default', cell: (s) => <Text>{text(s.default)}</Text>, wide: true },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}
