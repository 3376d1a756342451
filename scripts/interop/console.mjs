// What the tests of the console share: a server with something to see, a browser, and what each page must be.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, request as forward } from 'node:http'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'
import { findChromium } from './feedreaders.mjs'
import { eventually, startServer } from './sluice.mjs'

export const limit = 60_000
/** Starts a proxy in front of servers, which takes turns among those that answer. */
export async function startProxy(t, servers) {
  let turn = 0
  const proxy = createServer((request, response) => {
    const alive = servers.filter((s) => s.child.exitCode === null && s.child.signalCode === null)
    const { hostname, port } = new URL(alive[turn++ % alive.length].http)
    const on = forward({ hostname, port, method: request.method, path: request.url, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    on.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
    response.on('close', () => on.destroy())
    request.pipe(on)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.after(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${proxy.address().port}`
}

const axe = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Texts that must be shown, and never do anything. */
export const hostile = [
  '<script>window.hacked = 1</script>', '<img src=x onerror="window.hacked = 1">', '<svg onload="window.hacked = 1">', 'javascript:window.hacked=1',
  '{{constructor.constructor("window.hacked = 1")()}}', '\u202Eevil\u202C', 'zero\u200Bwidth', '"><iframe srcdoc="<script>parent.hacked=1</script>">', '\u0000\u0007', '\ud83d\ude08'.repeat(20),
]

/** Starts an endpoint whose paths answer with their name: /200, /500, … */
export async function startEndpoint(t, answer = hostile.join('\n').replaceAll('\u0000', '')) {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.writeHead(Number(request.url.slice(1)) || 200, { 'content-type': 'text/html' }).end(answer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${server.address().port}`
}

/**
 * Starts a server with subscriptions that deliver, fail and wait, events that cause one another, and one of everything else.
 * `orders` delivers, `billing` fails for good, `audit` waits for a retry. Event `paid` is caused by `placed`.
 */
export async function startWorld(t, { env = {}, answer } = {}) {
  const server = await startServer(t, env)
  const endpoint = await startEndpoint(t, answer)
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  const make = async (method, path, body) => {
    const { status, json } = await server.call(method, path, body)
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(json)}`)
    return json
  }
  await make('PUT', '/v1/namespaces/acme', { description: hostile[0] })
  await make('PUT', '/v1/namespaces/default/event-types/order.placed', { description: hostile[1], schema: { type: 'object', examples: [{ total: 5 }] }, summary_fields: ['total'] })
  const subscription = (id, url, more = {}) => make('POST', '/v1/subscriptions', { id, namespace: 'default', pattern: '/orders/**', endpoint: { url }, description: hostile[2], ...more })
  await subscription('orders', `${endpoint}/200`, { metadata: { note: hostile[3] } })
  await subscription('billing', `${endpoint}/400`, { policy: { retry: { preset: 'custom', steps: ['100ms'], max_attempts: 2 } } })
  await subscription('audit', `${endpoint}/503`, { policy: { retry: { preset: 'custom', steps: ['1h'] } } })
  await subscription('agents', `${endpoint}/200`, { mode: 'wake', pattern: '/agents/**' })
  await make('PUT', '/v1/namespaces/default/watches/expensive', { pattern: '/orders/*', filter: { cel: 'event.data.total > 100' }, action: { path: '/alarms', type: 'alarm' } })
  await make('PUT', '/v1/namespaces/default/appointments/report', { at: tomorrow, action: { path: '/reports', type: 'report' } })
  await make('POST', '/v1/namespaces/default/events', { id: 'later', path: '/orders/9', type: 'order.reminded', deliver_at: tomorrow })
  const event = (id, type, data, more = {}) => ({ id, path: '/orders/42', type, data, ...more })
  await make('POST', '/v1/namespaces/default/events', [event('placed', 'order.placed', { total: 5, notes: hostile })])
  await server.call('POST', '/v1/namespaces/default/events', { specversion: '1.0', source: '/shop', ...event('paid', 'order.paid', { total: 5 }, { causationid: 'placed' }) }, { 'content-type': 'application/cloudevents+json' })
  await eventually('deliveries', async () => {
    const { json } = await server.call('GET', '/v1/namespaces/default/events/placed/deliveries')
    const states = new Map(json.deliveries.map((d) => [d.subscription, d.state]))
    return states.get('orders') === 'delivered' && states.get('billing') === 'dead' && states.get('audit') === 'retrying'
  })
  return { server, endpoint, make }
}

/** Starts a browser; the returned function opens a tab that has signed in, and fails the test if a page has an error. */
export async function startBrowser(t) {
  const running = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'], timeout: limit })
  t.after(() => running.close())
  return async (server, { token = server.token, at = server.http, width = 1280, colorScheme = 'light' } = {}) => {
    const context = await running.newContext({ viewport: { width, height: 800 }, colorScheme, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' })
    t.after(() => context.close())
    const tab = await context.newPage()
    tab.setDefaultTimeout(limit)
    tab.problems = []
    tab.foreign = []
    tab.on('pageerror', (e) => tab.problems.push(String(e)))
    tab.on('console', (m) => {
      if (/Content Security Policy|Trusted/i.test(m.text())) tab.problems.push(m.text())
    })
    tab.on('request', (r) => {
      if (!r.url().startsWith(at) && !r.url().startsWith('data:')) tab.foreign.push(r.url())
    })
    tab.open = async (view) => {
      await tab.goto(`${at}/console${view}`)
      await tab.waitForSelector('main h1')
      await tab.waitForFunction(() => !document.querySelector('main [role=status]')?.textContent?.startsWith('Loading'))
    }
    await tab.goto(`${at}/console/`)
    await tab.fill('#token', token)
    await tab.press('#token', 'Enter')
    await tab.waitForSelector('header.top')
    return tab
  }
}

/** Fails if what a tab shows is wider than it, breaks a rule of WCAG 2.2 AA, had an error, asked another host, or tells of other problems. */
export async function checkPage(tab, name, told = []) {
  const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok(over <= 0, `${name}: ${over} px too wide`)
  await tab.evaluate(await axe)
  const { violations } = await tab.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }))
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target} ${n.failureSummary}`).slice(0, 3).join('; ')}`), [], name)
  assert.deepEqual(await tab.locator('main .problem').allTextContents(), told, name)
  assert.deepEqual(tab.problems, [], name)
  assert.deepEqual(tab.foreign, [], `${name}: requests to other hosts`)
  assert.equal(await tab.evaluate(() => window.hacked), undefined, `${name}: a payload ran`)
}

/** Checks what a tab shows in both themes and at two widths, and returns what is wrong. */
export async function checkLooks(tab, name) {
  const wrong = []
  for (const [width, colorScheme] of [[1280, 'light'], [1280, 'dark'], [360, 'dark'], [360, 'light']]) {
    await tab.setViewportSize({ width, height: 800 })
    await tab.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await checkPage(tab, `${name} at ${width} px, ${colorScheme}`).catch((problem) => wrong.push(`${problem.message} ${JSON.stringify(problem.actual ?? '')}`))
  }
  return wrong
}
