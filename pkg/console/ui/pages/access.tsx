import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { api } from '../lib/api.js'
import { line } from '../lib/format.js'
import { useLoad, usePages } from '../lib/load.js'
import { administers, may, me, oneNamespace } from '../lib/me.js'
import { go, here, href, param } from '../lib/route.js'
import { Facts, Loaded, Section, State, Text, Time, Title } from '../parts/basic.js'
import { AskButton } from '../parts/dialog.js'
import { Field, Select } from '../parts/form.js'
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
          { title: 'May', cell: (g) => <a href={href('/access', { grant: g.id })}>{g.verbs.join(', ')} on {g.object}</a> },
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

/** Asks what a grant or a token may do. A grant is in the URL; a token never is. */
function Check(): JSX.Element {
  const grant = param('grant')
  const [who, setWho] = useState(grant)
  useEffect(() => setWho(grant), [grant])
  const [verb, setVerb] = useState(param('verb') || 'read')
  const [object, setObject] = useState(param('object'))
  const [token, setToken] = useState<T.VerifyTokenBody>()
  const isToken = who.startsWith('cap_')
  const ask = (event: Event): void => {
    event.preventDefault()
    setToken(isToken ? { token: who, ...about(verb, object) } : undefined)
    go(here({ grant: isToken ? undefined : who, verb: object && verb, object }))
  }
  return (
    <Section title="What may a grant or a token do?">
      <form class="edit" onSubmit={ask}>
        <Field label="Grant or token" type={isToken ? 'password' : 'text'} value={who} set={setWho} required hint="The id of a grant, or a token of one." />
        <div class="columns">
          <Select label="Verb" value={verb} set={setVerb} options={verbs.map((v) => [v, v])} />
          <Field label="Object" value={object} set={setObject} hint="Such as path:acme/orders/7; empty: only whether it is valid." />
        </div>
        <button type="submit">Check</button>
      </form>
      {token ? <Answer body={token} /> : grant && <Answer body={{ grant, ...about(param('verb'), param('object')) }} />}
    </Section>
  )
}

const verbs: T.Verb[] = ['read', 'publish', 'subscribe', 'mirror', 'admin']

function about(verb: string, object: string): Pick<T.VerifyTokenBody, 'verb' | 'object'> {
  return object ? { verb: verb as T.Verb, object } : {}
}

const denials: Record<NonNullable<T.Verification['denied_by']>, string> = {
  grant: 'The grant, or one that it derives from, does not permit it.',
  access_list: 'The access list of the namespace denies it to a principal of the grant, or of one that it derives from.',
  label: 'A principal of the grant, or of one that it derives from, is not cleared for the label of the namespace.',
}

function Answer({ body }: { body: T.VerifyTokenBody }): JSX.Element {
  const load = useLoad(`check ${JSON.stringify(body)}`, {
    cli: line('grant', 'verify', body.grant ?? '-', ...(body.object ? ['--verb', body.verb, '--object', body.object] : [])),
    run: (client) => (body.token ? api() : client).verifyToken({ body }), // "as code" shows no token
  })
  const yes = (is: boolean | undefined): JSX.Element | undefined => (is === undefined ? undefined : <State of={is ? 'yes' : 'no'} tone={is ? 'good' : 'bad'} />)
  return (
    <Loaded load={load}>
      {({ valid, reason, allows, denied_by, grant }) => (
        <Facts of={{ Valid: yes(valid), Reason: reason, Allowed: yes(allows), Because: denied_by && denials[denied_by], Principal: <Text>{grant?.principal}</Text>, Grant: grant && `${grant.verbs.join(', ')} on ${grant.object}`, 'Derived from': grant?.parent && <a href={href('/access', { grant: grant.parent })}>{grant.parent}</a> }} />
      )}
    </Loaded>
  )
}
