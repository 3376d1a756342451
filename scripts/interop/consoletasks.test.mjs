// The console as operators use it: the ten main tasks with the keyboard alone, and the questions of support, each in at most
// three interactions.
import assert from 'node:assert/strict'
import test from 'node:test'
import { findChromium } from './feedreaders.mjs'
import { startBrowser, startWorld } from './console.mjs'

const skip = findChromium() ? false : 'needs Chromium'

/** Presses Tab until the focus is on an element of this name, as a person without a mouse does. */
async function tabTo(tab, name) {
  for (let i = 0; i < 150; i++) {
    const found = await tab.evaluate((wanted) => {
      const e = document.activeElement
      const label = e?.id ? document.querySelector(`label[for="${CSS.escape(e.id)}"]`)?.textContent : undefined
      return [e?.getAttribute('aria-label'), label, e?.textContent].some((text) => text?.trim() === wanted)
    }, name)
    if (found) return
    await tab.keyboard.press('Tab')
  }
  assert.fail(`the focus never came to ${name}`)
}

async function keys(tab, ...all) {
  for (const key of all) await tab.keyboard.press(key)
}

// issue 19, bar: the keyboard alone completes the ten main tasks
test('the keyboard alone completes the ten main tasks', { skip, timeout: 180_000 }, async (t) => {
  const { server, endpoint } = await startWorld(t)
  const tab = await (await startBrowser(t))(server) // 1: sign in, with Enter
  await tab.waitForSelector('main h1')

  await keys(tab, '/') // 2: find an event
  await tab.keyboard.type('placed')
  await keys(tab, 'Enter')
  await tab.waitForSelector('h1:has-text("placed")')

  await keys(tab, 'g', 's') // 3: open the worst subscription
  await tab.waitForSelector('tbody a')
  await keys(tab, 'j', 'Enter')
  await tab.waitForSelector('.tabs')

  await tab.open('/subscriptions/orders')
  await tabTo(tab, 'Pause') // 4: pause it
  await keys(tab, 'Enter')
  await tab.waitForSelector('.state:text("paused")')
  await tabTo(tab, 'Undo') // 5: and take it back
  await keys(tab, 'Enter')
  await tab.waitForSelector('.lead .state:text("active")')

  await tabTo(tab, 'Send test…') // 6: send a test event
  await keys(tab, 'Enter')
  await tabTo(tab, 'Send')
  await keys(tab, 'Enter')
  await tab.waitForSelector('dialog >> text=HTTP 200')
  await keys(tab, 'Escape')
  await tab.waitForSelector('dialog', { state: 'detached' })

  await tab.open('/subscriptions/billing?tab=dead') // 7: redrive dead letters, after the count
  await tab.waitForSelector('button:text("Redrive all…")')
  await tabTo(tab, 'Redrive all…')
  await keys(tab, 'Enter')
  await tab.waitForSelector('dialog >> text=/2 events? will be sent again/')
  await tabTo(tab, 'Redrive all')
  await keys(tab, 'Enter')
  await tab.waitForSelector('.notice >> text=sent again')

  await tab.open('/subscriptions/new?ns=default') // 8: create a subscription
  await tabTo(tab, 'ID')
  await tab.keyboard.type('typed')
  await tabTo(tab, 'Endpoint URL')
  await tab.keyboard.type(`${endpoint}/200`)
  await tabTo(tab, 'Create')
  await keys(tab, 'Enter')
  await tab.waitForSelector('text=/whsec_/')

  await tab.open('/subscriptions/typed?tab=settings') // 9: change a setting; the server's refusal is at its field
  await tabTo(tab, 'Timeout')
  await keys(tab, 'Control+A')
  await tab.keyboard.type('7 days')
  await tabTo(tab, 'Save')
  await keys(tab, 'Enter')
  await tab.waitForSelector('.hint.bad >> text=/timeout/')
  await tabTo(tab, 'Timeout')
  await keys(tab, 'Control+A')
  await tab.keyboard.type('7s')
  await tabTo(tab, 'Save')
  await keys(tab, 'Enter')
  await tab.waitForSelector('.notice >> text=saved')

  await tabTo(tab, 'As code') // 10: the page as code
  await keys(tab, '.')
  await tab.waitForSelector('dialog >> text=sluice sub show typed')
  await keys(tab, 'Escape', '?')
  await tab.waitForSelector('dialog >> text=Next and previous row')
  await keys(tab, 'Escape')
  assert.deepEqual(tab.problems, [])
})

/** Counts what a person does: a click, or a text that is typed and sent. */
function hands(tab) {
  let done = 0
  return {
    get done() { return done },
    async click(selector) {
      done++
      await tab.click(selector)
    },
    async search(text) {
      done++
      await tab.fill('#search', text)
      await tab.press('#search', 'Enter')
    },
    async type(label, text) {
      done++
      await tab.getByLabel(label, { exact: true }).fill(text)
      await tab.getByLabel(label, { exact: true }).press('Enter')
    },
  }
}

const questions = {
  'is anything stuck, and since when?': async (tab) => tab.waitForSelector('.figure:has-text("Oldest undelivered") >> text=audit'),
  'why has event paid not arrived at audit?': async (tab, hand) => {
    await hand.search('paid')
    await tab.waitForSelector('.delivery:has-text("audit") >> text=waits behind event')
  },
  'what did the receiver answer to it?': async (tab, hand) => {
    await hand.search('placed')
    await hand.click('.delivery:has-text("billing") >> text=Request and response')
    await tab.waitForSelector('dialog >> text=HTTP 400')
    await tab.waitForSelector('dialog pre >> text=hacked')
  },
  'what caused it, and what followed?': async (tab, hand) => {
    await hand.search('paid')
    await tab.waitForSelector('.cascade >> text=order.placed')
  },
  'who paused this?': async (tab, hand) => {
    await hand.search('anns')
    await hand.click('main >> text=Changes')
    await tab.waitForSelector('tr:has-text("subscription.pause") >> text=user:ann')
  },
  'which endpoints are failing, since when?': async (tab, hand) => {
    await hand.click('nav.menu >> text=Problems')
    await tab.waitForSelector('section:has-text("billing") >> text=/Since .* ago/')
    await tab.waitForSelector('section:has-text("audit") >> text=http 5xx')
  },
  'send all failures again': async (tab, hand) => {
    await hand.click('nav.menu >> text=Problems')
    await hand.click('section:has-text("billing") >> text=Redrive…')
    await tab.waitForSelector('dialog >> text=/events? will be sent again/')
    await hand.click('dialog footer >> text=Redrive')
    await tab.waitForSelector('.notice >> text=sent again')
  },
  'when is the next attempt?': async (tab, hand) => {
    await hand.search('audit')
    await tab.waitForSelector('tr:has-text("/orders/42") >> text=/^in \\d+ min/')
  },
  'who may do what, and why not more?': async (tab, hand) => {
    await hand.click('nav.menu >> text=Access')
    await hand.click('tr:has-text("user:ann") >> text=read, subscribe on scope:default')
    await tab.waitForSelector('dt:text-is("Valid") + dd >> text=yes')
    await hand.type('Object', 'path:acme/payroll')
    await tab.waitForSelector('dt:text-is("Allowed") + dd >> text=no')
    await tab.waitForSelector('dd >> text=or one that it derives from, does not permit it')
  },
  'how do I do this in a script?': async (tab, hand) => {
    await hand.search('placed')
    await tab.waitForSelector('h1:has-text("placed")')
    await hand.click('text=As code')
    await tab.waitForSelector('dialog >> text=sluice event placed --ns default')
    await tab.waitForSelector('dialog >> text=/curl .*events.placed.deliveries/')
  },
}

// issue 19, bar: each question of support is answered in at most three interactions
test('ten questions of support take three interactions at most', { skip, timeout: 180_000 }, async (t) => {
  const { server, endpoint, make } = await startWorld(t)
  const grant = await make('POST', '/v1/grants', { principal: 'user:ann', object: 'scope:default', verbs: ['read', 'subscribe'], expires_at: new Date(Date.now() + 3_600_000).toISOString() })
  const tab = await (await startBrowser(t))(server)
  const ann = { authorization: `Bearer ${grant.token}` }
  assert.equal((await server.call('POST', '/v1/subscriptions', { id: 'anns', namespace: 'default', pattern: '/orders/**', endpoint: { url: `${endpoint}/200` } }, ann)).status, 201)
  assert.equal((await server.call('POST', '/v1/subscriptions/anns/pause', undefined, ann)).status, 200)
  for (const [question, answer] of Object.entries(questions)) {
    await tab.open('/')
    const hand = hands(tab)
    await answer(tab, hand).catch((problem) => assert.fail(`${question}: ${problem.message}`))
    assert.ok(hand.done <= 3, `${question}: ${hand.done} interactions`)
    t.diagnostic(`${question} ${hand.done}`)
  }
  assert.deepEqual(tab.problems, [])
})

// issue 19, part 1: settings that the form has no fields for
test('the whole policy is edited as JSON', { skip, timeout: 120_000 }, async (t) => {
  const { server } = await startWorld(t)
  const tab = await (await startBrowser(t))(server)
  await tab.open('/subscriptions/orders?tab=settings')
  await tab.click('text=All settings of the policy')
  const field = tab.locator('label:text-is("Changes") + textarea')
  const settings = JSON.parse(await field.inputValue())
  await field.fill(JSON.stringify({ policy: { ...settings.policy, window: -1 } }))
  await tab.click('text=Save the JSON')
  await tab.waitForSelector('main .problem >> text=/window/')
  await field.fill(JSON.stringify({ policy: { ...settings.policy, window: 7 } }))
  await tab.click('text=Save the JSON')
  await tab.waitForSelector('.notice >> text=saved')
  assert.equal((await server.call('GET', '/v1/subscriptions/orders')).json.policy.window, 7)
})

test('a draft takes nothing back that was changed elsewhere', { skip, timeout: 120_000 }, async (t) => {
  const { server } = await startWorld(t)
  const path = '/v1/subscriptions/orders'
  const elsewhere = async (body) => assert.equal((await server.call('PATCH', path, body, { 'content-type': 'application/merge-patch+json' })).status, 200)
  await elsewhere({ endpoint: { headers: { 'X-One': '1', 'X-Two': '2', 'X-Three': '3' } } })
  const tab = await (await startBrowser(t))(server)
  await tab.open('/subscriptions/orders?tab=settings')
  await tab.click('text=All settings of the policy')
  const json = tab.locator('label:text-is("Changes") + textarea')
  await json.fill('{"metadata":{"a":"b"}}')
  await tab.fill('label:text-is("Timeout") + input', '9s')
  await elsewhere({ description: 'another text' })
  await tab.waitForSelector('.lead >> text=another text')
  assert.equal(await json.inputValue(), '{"metadata":{"a":"b"}}')
  for (const save of ['Save', 'Save the JSON']) {
    await tab.click(`button:text-is("${save}")`)
    await tab.waitForSelector('main .problem >> text=/revision/')
    await tab.click('button:text-is("Discard changes")')
    await tab.waitForSelector('main .problem', { state: 'detached' })
  }
  assert.equal(await tab.inputValue('label:text-is("Description") + input'), 'another text')
  await tab.fill('label:text-is("Headers") + textarea', 'X-One: 1\nX-Three: 4')
  await tab.click('button:text-is("Save")')
  await tab.waitForSelector('.notice >> text=saved')
  const { json: sub } = await server.call('GET', path)
  assert.deepEqual([sub.description, sub.endpoint.headers], ['another text', { 'X-One': '1', 'X-Three': '4' }])
})

test('events are shown when retention has removed the beginning of the log', { skip, timeout: 120_000 }, async (t) => {
  const { server, make } = await startWorld(t)
  await make('PUT', '/v1/namespaces/default', { retention: { max_bytes: 1 << 20 } })
  await make('POST', '/v1/namespaces/default/events', Array.from({ length: 300 }, (_, i) => ({ id: `many-${i}`, path: i === 250 ? '/rare' : '/many', type: 'x', data: 'x'.repeat(10_000) })))
  const { json } = await server.call('GET', '/v1/namespaces/default')
  assert.ok(json.usage.first_seq > json.usage.last_seq - 200, JSON.stringify(json.usage))
  const tab = await (await startBrowser(t))(server)
  for (const view of ['/events?pattern=/rare', '/streams/default/rare']) {
    await tab.open(view)
    await tab.waitForSelector('main >> text=many-250')
    assert.equal(await tab.locator('main .problem').count(), 0, view)
  }
})

// issue 19, part 3: nothing changes in read-only mode
test('a read-only console changes nothing', { skip, timeout: 120_000 }, async (t) => {
  const { server } = await startWorld(t)
  const tab = await (await startBrowser(t))(server)
  await tab.open('/subscriptions/billing?tab=dead')
  await tab.waitForSelector('button:text("Redrive all…")')
  await tab.click('.settings summary')
  await tab.check('text=Read-only')
  await tab.waitForSelector('button:text("Redrive all…")', { state: 'detached' })
  const writes = []
  tab.on('request', (r) => r.method() !== 'GET' && writes.push(`${r.method()} ${r.url()}`))
  await tab.open('/subscriptions/billing?tab=settings')
  for (const name of ['Pause', 'Rotate…', 'Seek…', 'Delete…']) assert.equal(await tab.locator(`button:text-is("${name}")`).count(), 0, name)
  await tab.fill('label:text-is("Timeout") + input', '9s')
  await tab.click('button:text-is("Save")')
  await tab.waitForSelector('text=The console is read-only')
  assert.deepEqual(writes, [])
})
