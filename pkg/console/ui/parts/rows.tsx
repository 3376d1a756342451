import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

const height = 32 // of a row, as in the style sheet
const margin = 10 // rows that are ready above and below

/** A list of any length: only the rows in view are in the document. */
export function Rows<R>({ label, head, rows, row, id }: { label: string; head: string[]; rows: readonly R[]; row: (r: R) => ComponentChildren[]; id: (r: R) => string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [seen, setSeen] = useState(600)
  useEffect(() => {
    const watched = new ResizeObserver(([entry]) => setSeen(entry?.contentRect.height ?? 600))
    if (box.current) watched.observe(box.current)
    return () => watched.disconnect()
  }, [])
  const from = Math.max(0, Math.floor(top / height) - margin)
  const to = Math.min(rows.length, Math.ceil((top + seen) / height) + margin)
  return (
    <div class="rows" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <div role="rowgroup">
        <div role="row" class="head" aria-rowindex={1}>{head.map((name) => <span role="columnheader" key={name}>{name}</span>)}</div>
      </div>
      <div class="scroll" role="rowgroup" ref={box} tabIndex={0} aria-label={label} onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
        <div style={{ height: `${rows.length * height}px` }} role="presentation">
          <div style={{ transform: `translateY(${from * height}px)` }} role="presentation">
            {rows.slice(from, to).map((r, i) => (
              <div role="row" key={id(r)} aria-rowindex={from + i + 2}>{row(r).map((cell, c) => <span role="cell" key={c}>{cell}</span>)}</div>
            ))}
          </div>
        </div>
      </div>
    </div>
  )
}
