import type { JSX } from 'preact'
import { counted } from '../lib/format.js'

/** Bars of delivered and failed attempts over time. The text beside it says the same to those who do not see it. */
export function Spark({ delivered, failed, span }: { delivered: number[]; failed: number[]; span: string }): JSX.Element {
  const sums = delivered.map((n, i) => n + (failed[i] ?? 0))
  const most = Math.max(1, ...sums)
  const width = 2
  const height = 24
  const bar = (n: number): number => (n === 0 ? 0 : Math.max(1, Math.round((n / most) * height)))
  const total = (all: number[]): number => all.reduce((a, b) => a + b, 0)
  const text = `${counted(total(delivered), 'delivery', 'deliveries')}, ${counted(total(failed), 'failed attempt')} in ${span}`
  return (
    <svg class="spark" role="img" aria-label={text} width={delivered.length * width} height={height} viewBox={`0 0 ${delivered.length * width} ${height}`}>
      <title>{text}</title>
      {delivered.map((n, i) => {
        const bad = bar(failed[i] ?? 0)
        const good = bar(n)
        return (
          <g key={i}>
            {good > 0 && <rect class="good" x={i * width} y={Math.max(0, height - good - bad)} width={width - 0.5} height={good} />}
            {bad > 0 && <rect class="bad" x={i * width} y={height - bad} width={width - 0.5} height={bad} />}
          </g>
        )
      })}
    </svg>
  )
}
