import { signal } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { type Call, type Sluice, api } from '../lib/api.js'
import type { Code } from '../lib/load.js'
import { readOnly } from '../lib/session.js'
import { Problem } from './basic.js'
import { CodeOf } from './code.js'

/** A dialog in front of the page. Escape and a click beside it close it; the focus returns. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onClick={(e) => e.target === e.currentTarget && e.currentTarget.close()}>
      <div class="inner">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" class="small" onClick={() => dialog.current?.close()}>Close</button>
        </header>
        {children}
      </div>
    </dialog>
  )
}

interface Notice {
  text: string
  code?: Code | undefined
  undo?: Act | undefined
}

/** What was done last. */
export const notice = signal<Notice | null>(null)

export interface Act {
  /** The verb on the button. */
  name: string
  /** What was done, afterwards. */
  done: string
  cli: string
  run: (api: Sluice) => Promise<unknown>
  /** What takes it back. */
  undo?: Act | undefined
}

/** Does something, and says so, with its code and what takes it back. */
export async function perform(act: Act): Promise<unknown> {
  const calls: Call[] = []
  const result = await act.run(api(calls))
  notice.value = { text: act.done, code: { cli: act.cli, calls }, undo: act.undo }
  return result
}

/** A button that acts at once: for what takes nothing away. */
export function ActButton({ act, then, primary }: { act: Act; then?: (result: unknown) => void; primary?: boolean }): JSX.Element | null {
  const [problem, setProblem] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const run = async (): Promise<void> => {
    setBusy(true)
    setProblem(undefined)
    await perform(act).then((result) => then?.(result), setProblem)
    setBusy(false)
  }
  if (readOnly.value) return null
  return (
    <>
      <button type="button" class={primary ? 'primary' : ''} disabled={busy} onClick={() => void run()}>{act.name}</button>
      {problem !== undefined && (
        <Dialog title={`${act.name}: refused`} close={() => setProblem(undefined)}>
          <Problem of={problem} />
        </Dialog>
      )}
    </>
  )
}

/**
 * A button that asks before it acts: the question counts and names what is affected.
 * count is asked first, if there is something to count.
 */
export function AskButton({ act, question, count, then, danger }: {
  act: Act
  question: ComponentChildren
  count?: ((api: Sluice) => Promise<ComponentChildren>) | undefined
  then?: ((result: unknown) => void) | undefined
  danger?: boolean
}): JSX.Element | null {
  const [open, setOpen] = useState(false)
  if (readOnly.value) return null
  return (
    <>
      <button type="button" class={danger ? 'danger' : ''} onClick={() => setOpen(true)}>{act.name}…</button>
      {open && <Ask act={act} question={question} count={count} danger={danger ?? false} close={() => setOpen(false)} then={then} />}
    </>
  )
}

function Ask({ act, question, count, danger, close, then }: {
  act: Act
  question: ComponentChildren
  count: ((api: Sluice) => Promise<ComponentChildren>) | undefined
  danger: boolean
  close: () => void
  then: ((result: unknown) => void) | undefined
}): JSX.Element {
  const [counted, setCounted] = useState<ComponentChildren>(count ? 'Counting…' : undefined)
  const [problem, setProblem] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    count?.(api()).then(setCounted, (p: unknown) => {
      setCounted(undefined)
      setProblem(p)
    })
  }, [])
  const run = async (): Promise<void> => {
    setBusy(true)
    setProblem(undefined)
    try {
      const result = await perform(act)
      close()
      then?.(result)
    } catch (p) {
      setProblem(p)
      setBusy(false)
    }
  }
  return (
    <Dialog title={act.name} close={close}>
      <p>{question}</p>
      {counted !== undefined && <p class="counted" role="status">{counted}</p>}
      <Problem of={problem} />
      <CodeOf code={{ cli: act.cli, calls: [] }} />
      <footer>
        <button type="button" onClick={close}>Cancel</button>
        <button type="button" class={danger ? 'danger' : 'primary'} disabled={busy || counted === 'Counting…'} onClick={() => void run()}>{act.name}</button>
      </footer>
    </Dialog>
  )
}
