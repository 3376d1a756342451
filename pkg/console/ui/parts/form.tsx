import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

interface Common {
  label: string
  hint?: ComponentChildren
  /** What the server says is wrong with it. */
  problem?: string | undefined
}

/** A field of text, or of several lines. */
export function Field({ label, hint, problem, value, set, lines, type = 'text', placeholder, required }: Common & {
  value: string
  set: (value: string) => void
  lines?: number
  type?: 'text' | 'url' | 'password'
  placeholder?: string
  required?: boolean
}): JSX.Element {
  const id = useId()
  const shared: Record<string, unknown> = {
    id, value, placeholder, required, spellcheck: false, autocomplete: 'off',
    'aria-describedby': hint || problem ? `${id}-hint` : undefined, 'aria-invalid': problem ? ('true' as const) : undefined,
    onInput: (e: Event) => set((e.currentTarget as HTMLInputElement).value),
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {lines ? <textarea {...shared} rows={lines} /> : <input {...(shared as object)} type={type as 'text'} />}
      <Hint id={`${id}-hint`} hint={hint} problem={problem} />
    </div>
  )
}

export function Select({ label, hint, problem, value, set, options }: Common & { value: string; set: (value: string) => void; options: [string, string][] }): JSX.Element {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} aria-describedby={hint || problem ? `${id}-hint` : undefined} onChange={(e) => set(e.currentTarget.value)}>
        {options.map(([v, name]) => <option key={v} value={v}>{name}</option>)}
      </select>
      <Hint id={`${id}-hint`} hint={hint} problem={problem} />
    </div>
  )
}

function Hint({ id, hint, problem }: { id: string; hint: ComponentChildren; problem: string | undefined }): JSX.Element | null {
  if (!hint && !problem) return null
  return <p id={id} class={problem ? 'hint bad' : 'hint'} role={problem ? 'alert' : undefined}>{problem ?? hint}</p>
}

/** A row of fields that narrow a list; a change is a new URL. */
export function Filters({ children }: { children: ComponentChildren }): JSX.Element {
  return <form class="filters" role="search" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>{children}</form>
}
