import type { JSX } from 'preact'
import { line } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { go, here, param } from '../lib/route.js'
import { Loaded, Section } from '../parts/basic.js'
import { Chart as Lines } from '../parts/chart.js'
import { Select } from '../parts/form.js'

type Step = '1m' | '5m' | '1h'

/** The attempts of a subscription over the last hour or day. */
export function Chart({ id }: { id: string }): JSX.Element {
  const span = param('span') || 'hour'
  const step: Step = span === 'hour' ? '1m' : '5m'
  const since = span === 'hour' ? '1h' : '24h'
  const load = useLoad(`statistics ${id} ${span}`, {
    cli: line('sub', 'stats', id, '--since', since, '--step', step), every: 15_000,
    run: (api) => api.getStatistics({ id, step, since }),
  })
  return (
    <Section title="Attempts" actions={<Select label="Time" value={span} set={(v) => go(here({ span: v === 'hour' ? undefined : v }), true)} options={[['hour', 'Last hour'], ['day', 'Last day']]} />}>
      <Loaded load={load}>
        {({ points }) => (
          <div class="columns charts">
            <Lines label="Delivered and failed attempts" at={points.map((p) => p.at)} series={[{ name: 'Delivered', values: points.map((p) => p.delivered), colour: '--sl-good' }, { name: 'Failed', values: points.map((p) => p.failed), colour: '--sl-bad' }]} />
            <Lines label="Durations of attempts" at={points.map((p) => p.at)} series={[{ name: 'p50', values: points.map((p) => p.p50_ms ?? null), colour: '--sl-info', unit: 'ms' }, { name: 'p95', values: points.map((p) => p.p95_ms ?? null), colour: '--sl-warn', unit: 'ms' }, { name: 'p99', values: points.map((p) => p.p99_ms ?? null), colour: '--sl-bad', unit: 'ms' }]} />
          </div>
        )}
      </Loaded>
    </Section>
  )
}
