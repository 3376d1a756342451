import { signal } from '@preact/signals'
import { go, href } from './route.js'

export const helping = signal(false)

/** The pages, in the order of the menu: path, name, and the key after `g`. */
export const pages: [string, string, string][] = [
  ['/', 'Overview', 'o'],
  ['/problems', 'Problems', 'p'],
  ['/subscriptions', 'Subscriptions', 's'],
  ['/attempts', 'Attempts', 't'],
  ['/events', 'Events', 'e'],
  ['/streams', 'Streams', 'r'],
  ['/schedules', 'Schedules and watches', 'w'],
  ['/catalogue', 'Catalogue', 'c'],
  ['/mirrors', 'Mirrors', 'm'],
  ['/access', 'Access', 'a'],
  ['/audit', 'Audit', 'u'],
  ['/system', 'System', 'y'],
]

/** Shortcuts, as the help shows them. */
export const shortcuts: [string, string][] = [
  ['/', 'Search'],
  ['?', 'Show these keys'],
  ['j, k', 'Next and previous row of a table'],
  ['Enter', 'Open the row'],
  ['l', 'Pause and resume live views'],
  ['.', 'Show this page as code'],
  ...pages.map(([, name, key]): [string, string] => [`g ${key}`, name]),
]

/** Pressed keys that a page can wait for. */
export const pressed = signal('')

/** Listens to the keyboard until the returned function is called. */
export function keyboard(): () => void {
  let before = ''
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return
    const first = before
    before = ''
    if (first === 'g') {
      const page = pages.find(([, , key]) => key === event.key)
      if (page) go(href(page[0]))
      return
    }
    switch (event.key) {
      case 'g':
        before = 'g'
        return
      case '/':
        event.preventDefault()
        document.querySelector<HTMLInputElement>('#search')?.focus()
        return
      case '?':
        helping.value = true
        return
      case 'j':
        step(1)
        return
      case 'k':
        step(-1)
        return
      default:
        pressed.value = ''
        pressed.value = event.key
    }
  }
  addEventListener('keydown', press)
  return () => removeEventListener('keydown', press)
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]')
}

/** Moves the focus to the link of another row. */
function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tbody tr a:first-of-type, main .rows [role=row] a:first-of-type')].filter((a, i, all) => all.findIndex((b) => b.closest('tr, [role=row]') === a.closest('tr, [role=row]')) === i)
  const at = rows.findIndex((a) => a.closest('tr, [role=row]')?.contains(document.activeElement))
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus()
}
