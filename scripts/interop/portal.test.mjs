// The portal in a real browser: one tenant, links that work once, frames in pages of another origin.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import test from 'node:test'
import { chromium } from 'playwright-core'
import { checkLooks, checkPage, limit, startEndpoint } from './console.mjs'
import { findChromium } from './feedreaders.mjs'
import { eventually, startServer } from './sluice.mjs'

const skip = findChromium() ? false : 'needs Chromium'

/** Starts a server with two tenants, a and b, and a page of another origin that may show the portal. */
async function startTenants(t) {
  const host = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(host.page ?? '')
  })
  host.listen(0, '127.0.0.1')
  await once(host, 'listening')
  t.after(() => {
    host.closeAllConnections()
    host.close()
  })
  const origin = `http://127.0.0.1:${host.address().port}`
  const server = await startServer(t, { SLUICE_PORTAL_FRAME_ANCESTORS: origin, SLUICE_PORTAL_TITLE: 'Acme hooks' })
  const endpoint = await startEndpoint(t)
  const make = async (method, path, body, headers) => {
    const { status, json } = await server.call(method, path, body, headers)
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(json)}`)
    return json
  }
  await make('PUT', '/v1/namespaces/saas', {})
  await make('PUT', '/v1/namespaces/saas/event-types/order.placed', { description: 'An order', schema: { type: 'object', examples: [{ total: 5 }] } })
  const link = async (tenant, more = {}) => {
    const made = await make('POST', '/v1/portal/links', { principal: `user:${tenant}`, object: `path:saas/${tenant}/**`, ...more })
    return { ...made, url: server.http + made.url, code: made.url.split('#code=')[1] }
  }
  const session = async (tenant) => make('POST', '/v1/portal/sessions', { code: (await link(tenant)).code })
  const as = (token) => ({ authorization: `Bearer ${token}` })
  const of = async (tenant, id, path) => make('POST', '/v1/subscriptions', { id, namespace: 'saas', pattern: `/${tenant}/**`, endpoint: { url: endpoint + path }, policy: { retry: { preset: 'custom', steps: ['100ms'], max_attempts: 2 } } }, as((await session(tenant)).token))
  await of('a', 'a-orders', '/200')
  await of('a', 'a-broken', '/400')
  await of('b', 'b-orders', '/200')
  await make('POST', '/v1/namespaces/saas/events', { id: 'a-1', path: '/a/1', type: 'order.placed', data: { total: 5 } })
  await make('POST', '/v1/namespaces/saas/events', { id: 'b-1', path: '/b/1', type: 'order.placed', data: { total: 6 } })
  await eventually('a dead letter', async () => (await server.call('GET', '/v1/subscriptions/a-broken/status')).json.dead_letters === 1)
  return { server, make, link, host, origin }
}

/** Starts a browser; the returned function opens an address in a tab of its own. */
async function startTabs(t, server) {
  const running = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'], timeout: limit })
  t.after(() => running.close())
  return async (url, { width = 1280, colorScheme = 'light' } = {}) => {
    const context = await running.newContext({ viewport: { width, height: 800 }, colorScheme, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' })
    t.after(() => context.close())
    const tab = await context.newPage()
    tab.setDefaultTimeout(limit)
    tab.problems = []
    tab.foreign = []
    tab.asked = []
    tab.on('pageerror', (e) => tab.problems.push(String(e)))
    tab.on('console', (m) => {
      if (/Content Security Policy|Trusted/i.test(m.text())) tab.problems.push(m.text())
    })
    tab.on('request', (r) => {
      tab.asked.push(r.url(), r.headers()['referer'] ?? '', r.headers()['cookie'] ?? '')
      if (!r.url().startsWith(server.http) && !r.url().startsWith('data:')) tab.foreign.push(r.url())
    })
    tab.show = async (view) => {
      await tab.goto(server.http + view)
      await tab.waitForSelector('main h1')
      await tab.waitForFunction(() => !document.querySelector('main [role=status]')?.textContent?.startsWith('Loading'))
    }
    await tab.goto(url)
    return tab
  }
}

// issue 19, part 2 and bar: one use, and the code is in no address, history, request or Referer
test('a link to the portal opens once and leaves no code behind', { skip, timeout: 120_000 }, async (t) => {
  const { server, link } = await startTenants(t)
  const open = await startTabs(t, server)
  const made = await link('a', { next: '/portal/catalogue?type=order.placed' })
  const tab = await open(made.url)
  await tab.waitForSelector('h1 >> text=Catalogue')
  assert.equal(tab.url(), `${server.http}/portal/catalogue?type=order.placed`)
  assert.equal(await tab.textContent('.brand'), 'Acme hooks')
  await tab.goBack().catch(() => undefined)
  assert.ok(!tab.url().includes(made.code), 'not in the history')
  assert.ok(!tab.asked.some((text) => text.includes(made.code)), 'in no address and no Referer')
  assert.deepEqual(await tab.context().cookies(), [])

  const again = await open(made.url)
  await again.waitForSelector('text=it works once')
  assert.ok(!again.url().includes('code='))
  await checkPage(again, 'a used link', ['the link has been used; it works once. Ask for a new one'])
})

// issue 19, bar: tenant A asking for B
test('the portal of one tenant shows nothing of another', { skip, timeout: 120_000 }, async (t) => {
  const { server, link } = await startTenants(t)
  const open = await startTabs(t, server)
  const tab = await open((await link('a')).url)
  await tab.waitForSelector('text=a-orders')
  for (const view of ['/portal/', '/portal/attempts', '/portal/missed', '/portal/events', '/portal/catalogue', '/portal/subscriptions?ns=saas']) {
    await tab.show(view)
    assert.ok(!(await tab.textContent('body')).includes('b-'), view)
  }
  await tab.goto(`${server.http}/portal/subscriptions/b-orders`)
  await tab.waitForSelector('.problem >> text=not found')
  await tab.goto(`${server.http}/portal/events/saas/b-1`)
  await tab.waitForSelector('.problem >> text=not found')
  for (const view of ['/portal/access', '/portal/audit', '/portal/system']) {
    await tab.show(view)
    await tab.waitForSelector('h1 >> text=Not found')
  }
  assert.deepEqual(tab.problems, [])
})

test('a tenant creates a subscription, rotates, redrives and deletes in the portal', { skip, timeout: 120_000 }, async (t) => {
  const { server, link } = await startTenants(t)
  const tab = await (await startTabs(t, server))((await link('a')).url)
  await tab.click('text=New subscription')
  assert.equal(await tab.inputValue('label:has-text("Pattern") + input'), '/a/**', 'the paths of the grant')
  await tab.fill('label:text-is("ID") + input', 'mine')
  await tab.fill('label:has-text("Endpoint URL") + input', 'http://127.0.0.1:1/hook')
  await tab.click('button >> text=Create')
  await tab.waitForSelector('pre >> text=whsec_')
  await tab.click('text=Go on')
  await tab.waitForSelector('h1 >> text=mine')
  await tab.click('button >> text=Pause')
  await tab.click('button >> text=Resume')
  await tab.click('nav.tabs >> text=Settings')
  assert.equal(await tab.locator('button >> text=Save').count(), 0, 'nothing is drawn that the API refuses')
  await tab.click('button >> text=Rotate…')
  await tab.click('dialog >> button.primary')
  await tab.waitForSelector('pre >> text=whsec_')
  await tab.click('button >> text=Delete…')
  await tab.click('dialog >> button.danger')
  await tab.waitForSelector('h1 >> text=Subscriptions')
  await eventually('the deletion', async () => (await server.call('GET', '/v1/subscriptions/mine')).status === 404)

  await tab.goto(`${server.http}/portal/subscriptions/a-orders`)
  await tab.click('button >> text=Send test…')
  await tab.selectOption('dialog select', 'order.placed')
  await tab.click('dialog >> button.primary')
  await tab.waitForSelector('dialog >> text=HTTP 200')
  await checkPage(tab, 'a test event')
  await tab.keyboard.press('Escape')

  await tab.goto(`${server.http}/portal/events/saas/a-1`)
  await tab.click('text=Request and response >> nth=0')
  await tab.waitForSelector('dialog pre >> text=webhook-id: a-1')
  await tab.keyboard.press('Escape')

  await tab.click('nav >> text=Missed events')
  await tab.click('button >> text=Send again…')
  await tab.waitForSelector('dialog >> text=1 event will be sent again.')
  await tab.click('dialog >> button.primary')
  await eventually('the replay', async () => (await server.call('GET', '/v1/subscriptions/a-broken/replays')).json.replays.length === 1)
  assert.deepEqual(tab.problems, [])
})

// issue 19, bar
test('every page of the portal is accessible and fits', { skip, timeout: 300_000 }, async (t) => {
  const { server, link } = await startTenants(t)
  const open = await startTabs(t, server)
  const views = ['/', '/subscriptions/new', '/subscriptions/a-broken', '/subscriptions/a-broken?tab=deliveries', '/subscriptions/a-broken?tab=dead', '/subscriptions/a-orders?tab=settings', '/attempts', '/missed', '/events', '/events/saas/a-1', '/catalogue?type=order.placed', '/none']
  const wrong = []
  const tab = await open((await link('a')).url)
  await tab.waitForSelector('header.top')
  for (const view of views) {
    await tab.show(`/portal${view}`)
    wrong.push(...await checkLooks(tab, view))
  }
  assert.deepEqual(wrong, [])
})

// issue 19, bar: a revoked grant empties an open page
test('a revoked session empties the portal', { skip, timeout: 120_000 }, async (t) => {
  const { server, link, make } = await startTenants(t)
  const made = await link('a')
  const tab = await (await startTabs(t, server))(made.url)
  await tab.waitForSelector('text=a-orders')
  const began = Date.now()
  await make('POST', `/v1/grants/${made.grant}/revoke`)
  await tab.waitForSelector('text=Your session has ended')
  t.diagnostic(`empty after ${Date.now() - began} ms`)
  assert.ok(!(await tab.textContent('body')).includes('a-orders'))
  assert.equal(await tab.evaluate(() => sessionStorage.length), 0)
})

// issue 19, part 2 and bar: the element in a page of another origin, its size, its colours, and clickjacking
test('the element shows the portal in pages of named origins only', { skip, timeout: 120_000 }, async (t) => {
  const { server, link, make, host, origin } = await startTenants(t)
  const open = await startTabs(t, server)
  const { headers } = await fetch(`${server.http}/portal/`)
  assert.match(headers.get('content-security-policy'), new RegExp(`frame-ancestors ${origin}$`))
  const made = await link('a')
  const page = (src) => `<!doctype html><title>Host</title><style>sluice-portal { --sl-accent: rgb(1, 100, 2); --sl-page: url(https://evil.example/); --sl-radius: 3px }</style>
    <script type="module" src="${server.http}/portal/element.js"></script><sluice-portal src="${src}" theme="dark"></sluice-portal>`
  host.page = page(made.url)
  const tab = await open(origin)
  const frame = tab.frameLocator('sluice-portal iframe')
  await frame.locator('text=a-orders').waitFor()
  const inner = tab.frames().find((f) => f.url().startsWith(server.http))
  assert.ok(!inner.url().includes('code='), 'the code is gone from the frame')
  const seen = () => inner.evaluate(() => ({ height: document.body.getBoundingClientRect().height, view: innerHeight, accent: getComputedStyle(document.documentElement).getPropertyValue('--sl-accent'), page: getComputedStyle(document.documentElement).getPropertyValue('--sl-page'), theme: document.documentElement.dataset.theme }))
  await eventually('the size', async () => {
    const { height, view } = await seen()
    return height > 360 ? Math.abs(height - view) <= 1 : view === 360
  })
  await eventually('the colours', async () => (await seen()).accent === 'rgb(1, 100, 2)')
  const now = await seen()
  assert.ok(!now.page.includes('evil'), 'only colours, sizes and fonts')
  assert.equal(now.theme, 'dark')
  await frame.locator('nav >> text=Catalogue').click()
  await frame.locator('h1 >> text=Catalogue').waitFor()
  await eventually('the size of another page', async () => {
    const { height, view } = await seen()
    return Math.abs(Math.max(360, Math.ceil(height)) - view) <= 1
  })
  await tab.evaluate(() => document.querySelector('sluice-portal').addEventListener('ended', () => (window.endedOnce = true)))
  await make('POST', `/v1/grants/${made.grant}/revoke`)
  await tab.waitForFunction(() => window.endedOnce)
  assert.ok(!tab.asked.some((text) => text.includes(made.code)))

  const stranger = createServer((request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(page(server.http + '/portal/')))
  stranger.listen(0, '127.0.0.1')
  await once(stranger, 'listening')
  t.after(() => stranger.close())
  const other = await open(`http://127.0.0.1:${stranger.address().port}`)
  await eventually('the refusal', () => other.problems.some((p) => p.includes('frame-ancestors')))
})

// A frame in a page of another site may have no storage.
test('the portal works without storage', { skip, timeout: 120_000 }, async (t) => {
  const { server, link } = await startTenants(t)
  const tab = await (await startTabs(t, server))('about:blank')
  await tab.addInitScript(() => {
    for (const name of ['sessionStorage', 'localStorage']) {
      Object.defineProperty(window, name, { configurable: true, get: () => { throw new DOMException('denied', 'SecurityError') } })
    }
  })
  await tab.goto((await link('a')).url)
  await tab.waitForSelector('text=a-orders')
  await tab.click('nav >> text=Catalogue')
  await tab.waitForSelector('h1 >> text=Catalogue')
  assert.deepEqual(tab.problems, [])
})

// issue 19, bar: open redirect by next
test('a link leads nowhere but to the portal', { skip, timeout: 120_000 }, async (t) => {
  const { server } = await startTenants(t)
  for (const next of ['//evil.example', 'https://evil.example', 'javascript:alert(1)', '/portal/../console/', '/\\evil.example', '/console/']) {
    const { status } = await server.call('POST', '/v1/portal/links', { principal: 'user:a', object: 'path:saas/a/**', next })
    assert.equal(status, 400, next)
  }
})
