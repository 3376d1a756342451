import './storage.js'
import { signal } from '@preact/signals'

/** Whether times are shown in UTC. */
export const utc = signal(localStorage.getItem('sluice.utc') === 'yes')
/** The present second, for ages. */
export const now = signal(Date.now())
setInterval(() => (now.value = Date.now()), 1000)

export function toggleUTC(): void {
  utc.value = !utc.value
  localStorage.setItem('sluice.utc', utc.value ? 'yes' : 'no')
}

/** A time with its zone, such as `2026-11-26 19:20:07 UTC`. */
export function time(text: string): string {
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) return text
  if (utc.value) return at.toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')
  const two = (n: number): string => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

const units: [string, number][] = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]]

/** A number of seconds in its two largest units, such as `3 min 20 s`. */
export function span(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds))
  const parts: string[] = []
  for (const [unit, size] of units) {
    if (rest >= size && parts.length < 2) parts.push(`${Math.floor(rest / size)} ${unit}`)
    else if (parts.length > 0) break
    rest %= size
  }
  return parts.join(' ') || '0 s'
}

/** How long ago a time was, or in how long it is. */
export function age(text: string): string {
  const seconds = (now.value - Date.parse(text)) / 1000
  if (Number.isNaN(seconds)) return ''
  if (Math.abs(seconds) < 1) return 'now'
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`
}

export function count(n: number): string {
  return n.toLocaleString('en')
}

/** A number and its noun, such as `1 event` and `2 events`. */
export function counted(n: number, noun: string, several = `${noun}s`): string {
  return `${count(n)} ${n === 1 ? noun : several}`
}

export function bytes(n: number): string {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) {
    if (n >= size) return `${(n / size).toFixed(n >= 10 * size ? 0 : 1)} ${unit}`
  }
  return `${n} B`
}

/** Milliseconds in a duration of Go, such as `1m30.5s`. */
export function milliseconds(duration: string): number {
  const size: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, µs: 1e-3, us: 1e-3, ns: 1e-6 }
  let sum = 0
  for (const [, n, unit] of duration.matchAll(/([\d.]+)(ms|µs|us|ns|h|m|s)/g)) sum += Number(n) * (size[unit ?? ''] ?? 0)
  return sum
}

/** A duration of Go, rounded for people. */
export function duration(text: string): string {
  const ms = milliseconds(text)
  if (ms === 0) return text
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms / 1000)
}

/** Characters that turn text around or cannot be seen become their code points, so that no payload disguises itself. */
export function visible(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)
}

/** JSON over several lines; other text as it is. */
export function pretty(value: unknown): string {
  return visible(typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? ''))
}

/** Quotes an argument for a shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** The line of the command line with quoted arguments. Empty ones are left out. */
export function line(...args: (string | undefined | false)[]): string {
  return ['sluice', ...args.filter((a): a is string => typeof a === 'string' && a !== '').map(quoted)].join(' ')
}
