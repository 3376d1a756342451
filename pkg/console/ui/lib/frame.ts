// What the portal and the page around it tell one another. Only pages whose origins the operator has named can show the portal, so
// only they are told, and heard.
import { setting } from './session.js'

/** Messages, as element.ts has them. */
export interface ToHost {
  sluice: 'ready' | 'size' | 'ended'
  height?: number
}

const ancestors = setting('ancestors').split(' ').filter(Boolean)
const framed = window.parent !== window && ancestors.length > 0

function tell(message: ToHost): void {
  if (!framed) return
  const around = location.ancestorOrigins?.[0]
  for (const origin of around && ancestors.includes(around) ? [around] : ancestors) window.parent.postMessage(message, origin)
}

/** Custom properties that a host page may set, and the form of their values: no URLs, no functions other than colours. */
const themed = /^--sl-(font|mono|page|panel|line|strong-line|text|quiet|accent|on-accent|good|good-back|warn|warn-back|bad|bad-back|info|info-back|radius)$/
const allowed = /^(#[\da-f]{3,8}|(rgb|rgba|hsl|hsla|oklch|oklab|lab|lch)\([\d\s.,%/deg-]+\)|[a-z]+|[\d.]+(px|rem|em)|[\w\s,"'-]+)$/i
const longest = 200

function paint(theme: unknown): void {
  if (typeof theme !== 'object' || theme === null) return
  for (const [name, value] of Object.entries(theme)) {
    if (themed.test(name) && typeof value === 'string' && value.length <= longest && allowed.test(value.trim())) document.documentElement.style.setProperty(name, value.trim())
  }
}

/** Tells the page around this one how high it is, and takes its colours. */
export function beFramed(): void {
  if (window.parent === window) return
  document.documentElement.dataset['framed'] = ''
  addEventListener('message', (event) => {
    const { data } = event as MessageEvent<{ sluice?: unknown; theme?: unknown; scheme?: unknown } | null>
    if (event.source !== window.parent || !ancestors.includes(event.origin) || data?.sluice !== 'theme') return
    paint(data.theme)
    if (data.scheme === 'light' || data.scheme === 'dark') document.documentElement.dataset['theme'] = data.scheme
  })
  let before = 0
  new ResizeObserver(() => {
    const height = Math.ceil(document.body.getBoundingClientRect().height)
    if (height === before) return
    before = height
    tell({ sluice: 'size', height })
  }).observe(document.body)
  tell({ sluice: 'ready' })
}

/** Tells the page around this one that another link is needed. */
export function tellEnd(): void {
  tell({ sluice: 'ended' })
}
