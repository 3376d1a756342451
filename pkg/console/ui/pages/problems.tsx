import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { count, counted, line } from '../lib/format.js'
import { type Load, usePages } from '../lib/load.js'
import { go, here, href, namespace, param } from '../lib/route.js'
import { readOnly } from '../lib/session.js'
import { Empty, Problem as Refusal, Sentence, State, Time, Title } from '../parts/basic.js'
import { type Act, ActButton, AskButton, Dialog, perform } from '../parts/dialog.js'
import { Field, Filters, Select } from '../parts/form.js'
import { pause, probe, resume, retryLanes } from './subscription.js'

/** Failures by endpoint and kind: since when, how many, and what helps. */
export function Problems(): JSX.Element {
  const ns = namespace.value
  const state = param('state') || 'open'
  const load = usePages(`problems ${ns} ${state}`, {
    cli: line('problems', ns && '--ns', ns, state !== 'open' && '--state', state !== 'open' && state),
    every: 3000,
    page: async (api, cursor) => {
      const page = await api.listProblems({ namespace: ns || undefined, state: state as T.ProblemState, limit: 50, cursor })
      return { rows: page.problems, next: page.next_cursor }
    },
  })
  return (
    <>
      <Title>Problems</Title>
      <Filters>
        <Select label="State" value={state} set={(v) => go(here({ state: v === 'open' ? undefined : v }))} options={[['open', 'Open'], ['acknowledged', 'Acknowledged'], ['ignored', 'Ignored'], ['resolved', 'Resolved']]} />
      </Filters>
      <Refusal of={load.problem} retry={load.reload} />
      {load.value?.length === 0 && <Empty>No {state} problem.</Empty>}
      {load.value?.map((p) => <Card key={p.id} of={p} load={load} />)}
      {load.more && <button type="button" class="more" onClick={load.more}>Show more</button>}
    </>
  )
}

function Card({ of: p, load }: { of: T.Problem; load: Load<T.Problem[]> }): JSX.Element {
  const one = href(`/subscriptions/${encodeURIComponent(p.subscription)}`)
  return (
    <section aria-label={`${p.subscription}: ${p.class}`}>
      <header>
        <h2><a href={one}>{p.subscription}</a> <State of={p.class} tone="bad" /> {p.state !== 'open' && <State of={p.state} />}</h2>
        <div class="actions"><Acts of={p} load={load} /></div>
      </header>
      <p><Sentence>{p.sentence}</Sentence></p>
      <p class="quiet">
        Since <Time at={p.since} />, last <Time at={p.last_at} />: {counted(p.attempts, 'attempt')}, {counted(p.events, 'event')} on {counted(p.paths, 'path')}.
        {p.status ? ` The last answer was HTTP ${count(p.status)}.` : ''} {p.next_attempt_at && <>The next attempt is due <Time at={p.next_attempt_at} />.</>}
      </p>
      {p.answer && <pre tabIndex={0} role="region" aria-label="Last answer"><Sentence>{p.answer}</Sentence></pre>}
      {p.changed_by && <p class="quiet">{p.state} by <Sentence>{p.changed_by}</Sentence> <Time at={p.changed_at} />{p.note && <>: <Sentence>{p.note}</Sentence></>}</p>}
    </section>
  )
}

/** The acts that help, as the server names them. */
function Acts({ of: p, load }: { of: T.Problem; load: Load<T.Problem[]> }): JSX.Element {
  const one = encodeURIComponent(p.subscription)
  const acts = p.acts ?? []
  const redrive: Act = { name: 'Redrive', done: `The dead letters of ${p.subscription} are sent again.`, cli: line('dead', 'redrive', p.subscription, '--all'), run: (api) => api.redriveDeadLetters({ id: p.subscription, body: { all: true } }) }
  return (
    <>
      {acts.includes('probe') && <ActButton act={probe(p.subscription)} then={load.reload} />}
      {acts.includes('retry') && <ActButton act={retryLanes(p.subscription)} then={load.reload} />}
      {acts.includes('resume') && <ActButton act={resume(p.subscription)} then={load.reload} />}
      {acts.includes('redrive') && (
        <AskButton
          act={redrive} then={load.reload} question={`Send the dead letters of ${p.subscription} again, in order of their paths?`}
          count={async (api) => `${counted((await api.listDeadLetters({ id: p.subscription, limit: 1 })).total, 'event')} will be sent again.`}
        />
      )}
      {acts.includes('pause') && <ActButton act={pause(p.subscription)} then={load.reload} />}
      {(acts.includes('rotate') || acts.includes('seek')) && <a class="button" href={href(`/subscriptions/${one}`, { tab: 'settings' })}>Settings</a>}
      <Judge of={p} reload={load.reload} />
    </>
  )
}

const verbs: ['open' | 'acknowledged' | 'ignored', string, string][] = [['acknowledged', 'Acknowledge', 'ack'], ['ignored', 'Ignore', 'ignore'], ['open', 'Reopen', 'reopen']]

/** Says what an operator thinks of a problem, with a note for the others. */
function Judge({ of: p, reload }: { of: T.Problem; reload: () => void }): JSX.Element | null {
  const [asked, setAsked] = useState<(typeof verbs)[number]>()
  const [note, setNote] = useState('')
  const [problem, setProblem] = useState<unknown>()
  const judge = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (!asked) return
    const [state, name, verb] = asked
    await perform({
      name, done: `The problem of ${p.subscription} is ${state}.`, cli: line('problems', verb, p.id, note && '--note', note),
      run: (api) => api.changeProblem({ problem: p.id, body: { state, note } }),
    }).then(() => {
      setAsked(undefined)
      reload()
    }, setProblem)
  }
  if (readOnly.value) return null
  return (
    <>
      {verbs.filter(([state]) => state !== p.state && (p.state !== 'resolved' || state === 'open')).map((v) => <button type="button" key={v[0]} onClick={() => setAsked(v)}>{v[1]}…</button>)}
      {asked && (
        <Dialog title={`${asked[1]} the problem of ${p.subscription}`} close={() => setAsked(undefined)}>
          <form class="edit" onSubmit={(e) => void judge(e)}>
            <Field label="Note" hint="For the others, such as the ticket that follows it." value={note} set={setNote} />
            <Refusal of={problem} />
            <button type="submit" class="primary">{asked[1]}</button>
          </form>
        </Dialog>
      )}
    </>
  )
}
