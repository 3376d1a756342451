import type { ComponentChildren, JSX } from 'preact'
import type { Load } from '../lib/load.js'
import { Empty, Problem } from './basic.js'

export interface Column<R> {
  title: string
  cell: (row: R) => ComponentChildren
  /** right: numbers. */
  align?: 'right'
  /** Hidden on narrow screens. */
  wide?: boolean
}

interface Props<R> {
  /** What the rows are, for screen readers. */
  label: string
  columns: Column<R>[]
  rows: R[]
  id: (row: R) => string
  empty: ComponentChildren
}

/** A table. It scrolls sideways by itself when it must. */
export function Table<R>({ label, columns, rows, id, empty }: Props<R>): JSX.Element {
  if (rows.length === 0) return <Empty>{empty}</Empty>
  const kind = (c: Column<R>): string => [c.align, c.wide && 'wide'].filter(Boolean).join(' ')
  return (
    <div class="table" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>{columns.map((c) => <th key={c.title} class={kind(c)} scope="col">{c.title}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>{columns.map((c) => <td key={c.title} class={kind(c)}>{c.cell(row)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A table of what is loaded page by page. */
export function Pages<R>({ load, ...table }: Omit<Props<R>, 'rows'> & { load: Load<R[]> & { more: (() => void) | undefined } }): JSX.Element {
  return (
    <>
      <Problem of={load.problem} retry={load.reload} />
      {load.value ? <Table {...table} rows={load.value} /> : load.busy && <p class="quiet" role="status">Loading…</p>}
      {load.more && <button type="button" class="more" onClick={load.more}>Show more</button>}
    </>
  )
}
