import type { JSX } from 'preact'
import { here, param } from '../lib/route.js'

/** Parts of a page as links, so that each is a URL. The first one is the page without a part. */
export function Tabs({ of: tabs, label }: { of: [string, string][]; label: string }): JSX.Element {
  const chosen = param('tab') || tabs[0]?.[0]
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(([id, name], i) => (
        <a key={id} href={here({ tab: i === 0 ? undefined : id, state: undefined })} aria-current={chosen === id ? 'page' : undefined}>{name}</a>
      ))}
    </nav>
  )
}
