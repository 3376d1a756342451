import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { count, time, utc } from '../lib/format.js'
import { theme } from '../lib/theme.js'
import { Table } from './table.js'

export interface Series {
  name: string
  values: (number | null)[]
  /** Custom property of its colour. */
  colour: string
  unit?: string
}

/** Lines over time, and the same as a table. The library is loaded when the first chart is shown. */
export function Chart({ label, at, series }: { label: string; at: string[]; series: Series[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const [dark, setDark] = useState(0)
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)')
    const change = (): void => setDark((n) => n + 1)
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [])
  useEffect(() => {
    let chart: uPlot | undefined
    let over = false
    const size = new ResizeObserver(() => {
      if (box.current && chart) chart.setSize({ width: box.current.clientWidth, height: chartHeight })
    })
    void import('uplot').then(({ default: Plot }) => {
      if (over || !box.current) return
      chart = new Plot(options(box.current.clientWidth, series), [at.map((t) => Date.parse(t) / 1000), ...series.map((s) => s.values)], box.current)
      size.observe(box.current)
    })
    return () => {
      over = true
      size.disconnect()
      chart?.destroy()
    }
  }, [at.at(-1), at.length, JSON.stringify(series), theme.value, utc.value, dark])
  return (
    <figure class="chart">
      <div ref={box} role="img" aria-label={label} style={{ minHeight: `${chartHeight}px` }} />
      <figcaption>
        {series.map((s) => <span key={s.name} class="key" style={{ '--key': `var(${s.colour})` }}>{s.name}</span>)}
      </figcaption>
      <details>
        <summary>As a table</summary>
        <Table
          label={label} rows={at.map((t, i) => ({ t, i })).reverse()} id={({ t }) => t} empty="No attempt yet."
          columns={[{ title: 'From', cell: ({ t }) => time(t) }, ...series.map((s) => ({ title: s.name, align: 'right' as const, cell: ({ i }: { i: number }) => cell(s, i) }))]}
        />
      </details>
    </figure>
  )
}

function cell(s: Series, i: number): string {
  const value = s.values[i]
  return value === null || value === undefined ? '–' : `${count(Math.round(value))}${s.unit ? ` ${s.unit}` : ''}`
}

const chartHeight = 180

function options(width: number, series: Series[]): uPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const colour = (name: string): string => style.getPropertyValue(name).trim()
  const axis = { stroke: colour('--sl-quiet'), grid: { stroke: colour('--sl-line'), width: 1 }, ticks: { show: false }, font: `12px ${style.getPropertyValue('--sl-font')}` }
  return {
    width, height: chartHeight, legend: { show: false }, cursor: { show: true, drag: { x: false, y: false } },
    tzDate: (seconds) => (utc.value ? new Date(seconds * 1000 + new Date(seconds * 1000).getTimezoneOffset() * 60_000) : new Date(seconds * 1000)),
    axes: [{ ...axis, size: 30, values: (_, all) => all.map((s) => clock(s)) }, { ...axis, size: 60 }],
    series: [{}, ...series.map((s) => ({ label: s.name, stroke: colour(s.colour), width: 2, points: { show: false } }))],
  }
}

function clock(seconds: number): string {
  return time(new Date(seconds * 1000).toISOString()).slice(11, 16)
}
