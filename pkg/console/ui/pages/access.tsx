import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { api } from '../lib/api.js'
import { line } from '../lib/format.js'
import { useLoad, usePages } from '../lib/load.js'
import { administers, may, me, oneNamespace } from '../lib/me.js'
import { Facts, Loaded, Problem, Section, State, Text, Time, Title } from '../parts/basic.js'
import { AskButton } from '../parts/dialog.js'
import { Field } from '../parts/form.js'
import { Pages, Table } from '../parts/table.js'

/** Grants, access lists and clearances: who can do what, and why. */
export function Access(): JSX.Element {
  const who = me.value?.who
  return (
    <>
      <Title>Access</Title>
      <Section title="You">
        <Facts of={{ Principal: <Text>{who?.principal}</Text>, Grant: who?.grant ? who.grant.id : 'root: everything', Object: who?.grant?.object, Verbs: who?.grant?.verbs.join(', '), Expires: who?.grant && <Time at={who.grant.expires_at} /> }} />
      </Section>
      <Grants />
      {may('admin') && <Lists />}
      {administers.value && <Clearances />}
      <Check />
    </>
  )
}

function stateOf(g: T.Grant): string {
  if (g.revoked_at) return 'revoked'
  return Date.parse(g.expires_at) < Date.now() ? 'expired' : 'active'
}

function Grants(): JSX.Element {
  const load = usePages('grants', {
    cli: line('grant', 'ls'),
    page: async (client, cursor) => {
      const page = await client.listGrants({ limit: 50, cursor })
      return { rows: page.grants, next: page.next_cursor }
    },
  })
  return (
    <Section title="Grants">
      <Pages
        label="Grants" load={load} id={(g) => g.id} empty="No grant that you may see. `sluice grant create` issues one."
        columns={[
          { title: 'Principal', cell: (g) => <Text>{g.principal}</Text> },
          { title: 'May', cell: (g) => `${g.verbs.join(', ')} on ${g.object}` },
          { title: 'State', cell: (g) => <State of={stateOf(g)} /> },
          { title: 'Expires', cell: (g) => <Time at={g.expires_at} />, wide: true },
          { title: 'Issued by', cell: (g) => <Text>{g.issued_by}</Text>, wide: true },
          { title: 'Act', cell: (g) => stateOf(g) === 'active' && (
            <AskButton
              danger act={{ name: 'Revoke', done: `The grant of ${g.principal} is revoked.`, cli: line('grant', 'revoke', g.id), run: (client) => client.revokeGrant({ grant: g.id }) }}
              question={`Revoke the grant of ${g.principal}? It and all grants derived from it end at once, with their subscriptions. There is no undo.`}
              count={async (client) => {
                const derived = (await client.listGrants({ limit: 1000 })).grants.filter((other) => other.parent === g.id && stateOf(other) === 'active').length
                return derived === 0 ? 'No grant is derived from it.' : `${derived} derived grants end with it.`
              }}
              then={load.reload}
            />
          ) },
        ]}
      />
    </Section>
  )
}

function Lists(): JSX.Element {
  const ns = oneNamespace.value
  const load = useLoad(`acl ${ns}`, { cli: line('acl', 'ls', ns), run: (client) => client.listACL({ ns }) })
  return (
    <Section title={`Access list of ${ns}`}>
      <Loaded load={load}>
        {({ acl }) => (
          <Table
            label="Access list" rows={acl} id={(a) => a.principal} empty="No entry: grants alone decide."
            columns={[
              { title: 'Principal', cell: (a) => <Text>{a.principal}</Text> },
              { title: 'Entries', cell: (a) => <Text>{a.entries.map((e) => `${e.tier} on ${e.pattern ?? '/**'}`).join(', ')}</Text> },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}

function Clearances(): JSX.Element {
  const load = useLoad('principals', { cli: line('principal', 'ls'), run: (client) => client.listPrincipals() })
  return (
    <Section title="Clearances">
      <Loaded load={load}>
        {({ principals }) => (
          <Table
            label="Clearances" rows={principals} id={(p) => p.principal} empty="No principal has a clearance."
            columns={[
              { title: 'Principal', cell: (p) => <Text>{p.principal}</Text> },
              { title: 'Clearance', cell: (p) => <Text>{[p.clearance.level ?? 'PUBLIC', ...(p.clearance.compartments ?? [])].join(', ')}</Text> },
              { title: 'Description', cell: (p) => <Text>{p.description}</Text>, wide: true },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}

/** Asks what a token may do. */
function Check(): JSX.Element {
  const [token, setToken] = useState('')
  const [verb, setVerb] = useState('read')
  const [object, setObject] = useState('')
  const [answer, setAnswer] = useState<T.Verification>()
  const [problem, setProblem] = useState<unknown>()
  const ask = async (event: Event): Promise<void> => {
    event.preventDefault()
    setProblem(undefined)
    setAnswer(undefined)
    await api().verifyToken({ body: { token, ...(object ? { verb: verb as T.Verb, object } : {}) } }).then(setAnswer, setProblem)
  }
  return (
    <Section title="What may a token do?">
      <form class="edit" onSubmit={(e) => void ask(e)}>
        <Field label="Token" type="password" value={token} set={setToken} required />
        <div class="columns">
          <Field label="Verb" value={verb} set={setVerb} hint="read, publish, subscribe, mirror or admin" />
          <Field label="Object" value={object} set={setObject} hint="Such as scope:acme; empty: only whether it is valid." />
        </div>
        <button type="submit">Check</button>
        <Problem of={problem} />
        {answer && <Facts of={{ Valid: <State of={answer.valid ? 'yes' : 'no'} tone={answer.valid ? 'good' : 'bad'} />, Allows: answer.allows === undefined ? undefined : <State of={answer.allows ? 'yes' : 'no'} tone={answer.allows ? 'good' : 'bad'} />, Reason: answer.reason, Principal: answer.grant?.principal, Object: answer.grant?.object, Verbs: answer.grant?.verbs.join(', ') }} />}
      </form>
    </Section>
  )
}
