// Figures of the console, printed: `make console-bench` (five minutes; MINUTES=60 for the hour). What a page costs the server is measured
// with the requests that pages send, as 20 browsers on this machine would take the processors themselves.
import { setMaxListeners } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import test from 'node:test'
import { startBrowser, startWorld } from './console.mjs'
import { eventually } from './sluice.mjs'

const minutes = Number(process.env.MINUTES ?? 3)
const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)]

/** Publishes n events: at most so many a second. */
async function publish(server, n, rate = Infinity) {
  const began = performance.now()
  for (let i = 0; i < n; i += 1000) {
    await pause(Math.max(0, began + (1000 * i) / rate - performance.now()))
    const { status } = await server.call('POST', '/v1/namespaces/default/events', Array.from({ length: Math.min(1000, n - i) }, (_, k) => ({ path: `/bench/${(i + k) % 500}`, type: 'bench', data: { n: i + k } })))
    if (status >= 300) throw new Error(`publish: ${status}`)
  }
}

/** Processor time of a process in seconds. */
async function processor(pid) {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** Resident memory of a process in MiB. */
async function memory(pid) {
  return Math.round(Number((await readFile(`/proc/${pid}/status`, 'utf8')).match(/VmRSS:\s+(\d+)/)[1]) / 1024)
}

/** Sends the requests of an open overview and of an open list of attempts until it is told to stop. */
function visit(server, stop) {
  setMaxListeners(0, stop.signal)
  const repeat = async (path, every) => {
    while (!stop.signal.aborted) {
      await server.call('GET', path).catch(() => undefined)
      await pause(every, undefined, { signal: stop.signal }).catch(() => undefined)
    }
  }
  return Promise.all([repeat('/v1/overview', 2000), repeat('/v1/health/subscriptions?limit=8&sparkline=true', 5000)])
}

async function delivered(server) {
  const { json } = await server.call('GET', '/v1/subscriptions/bench/status')
  return json.backlog + json.in_flight === 0
}

/** Publishes n events, 5,000 a second, and returns the deliveries per second. */
async function speed(server, n) {
  const began = performance.now()
  await publish(server, n, 5000)
  await eventually('deliveries', () => delivered(server), 120_000)
  return n / ((performance.now() - began) / 1000)
}

test('figures of the console', { timeout: (minutes + 20) * 60_000 }, async (t) => {
  const { server, endpoint, make } = await startWorld(t)
  const say = (text) => console.log(text)
  const { pid } = server.child
  await make('POST', '/v1/subscriptions', { id: 'bench', namespace: 'default', pattern: '/bench/**', endpoint: { url: `${endpoint}/200` } })

  const [alone, open] = [[], []]
  for (let i = 0; i < 5; i++) {
    alone.push(await speed(server, 50_000))
    const stop = new AbortController()
    const visits = Array.from({ length: 20 }, () => visit(server, stop))
    open.push(await speed(server, 50_000))
    stop.abort()
    await Promise.all(visits)
  }
  say(`deliveries per second at 5,000 published, medians of 5: ${median(alone).toFixed(0)} alone, ${median(open).toFixed(0)} with 20 consoles open: ${(median(open) / median(alone)).toFixed(3)}`)

  const cost = async () => {
    await pause(5000)
    const shares = []
    for (const n of [0, 1, 20]) {
      const stop = new AbortController()
      const visits = Array.from({ length: n }, () => visit(server, stop))
      shares.push(100 * await over(pid, 50))
      stop.abort()
      await Promise.all(visits)
    }
    const [idle, one, twenty] = shares
    return `${idle.toFixed(1)} % of a core without pages, ${(one - idle).toFixed(2)} % for one open overview, ${((twenty - idle) / 20).toFixed(2)} % for each of 20`
  }
  say(`processor of the server: ${await cost()}`)

  const tab = await (await startBrowser(t))(server)
  const paints = []
  for (let i = 0; i < 9; i++) {
    await tab.open('/')
    paints.push(await tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime))
  }
  say(`first paint: ${median(paints).toFixed(0)} ms, median of 9`)

  await tab.open('/attempts?ns=default')
  await publish(server, 100_000)
  await eventually('100,000 rows', async () => Number(await tab.getAttribute('.rows', 'aria-rowcount')) >= 100_000, 300_000)
  const frames = await tab.evaluate(async () => {
    const box = document.querySelector('.rows .scroll')
    const took = []
    for (let last = performance.now(), end = last + 5000; last < end;) {
      box.scrollTop = (box.scrollTop + 700) % (box.scrollHeight - 800)
      const now = await new Promise(requestAnimationFrame)
      took.push(now - last)
      last = now
    }
    return took.slice(1)
  })
  say(`scrolling 100,000 attempts: ${(1000 * frames.length / frames.reduce((a, b) => a + b)).toFixed(1)} frames per second, the slowest frame ${Math.max(...frames).toFixed(0)} ms`)

  const cdp = await tab.context().newCDPSession(tab)
  const heap = async () => {
    await cdp.send('HeapProfiler.collectGarbage')
    return (await cdp.send('Runtime.getHeapUsage')).usedSize / 2 ** 20
  }
  const [heaps, resident] = [[], []]
  for (let minute = 0; minute < minutes; minute++) {
    for (let second = 0; second < 60; second++) {
      const began = performance.now()
      await publish(server, 1000)
      await pause(Math.max(0, 1000 - (performance.now() - began)))
    }
    heaps.push((await heap()).toFixed(0))
    resident.push(await memory(pid))
    console.error(`minute ${minute + 1} of ${minutes}: page ${heaps.at(-1)} MiB, server ${resident.at(-1)} MiB`)
  }
  say(`heap of the page in MiB, each minute, at 1,000 attempts a second with 100,000 kept: ${heaps.join(' ')}`)
  say(`memory of the server in MiB, each minute: ${resident.join(' ')}`)
  await tab.close()

  for (let i = 0; i < 9900; i += 900) {
    await make('POST', '/v1/subscriptions/batch', Array.from({ length: 900 }, (_, k) => ({ id: `many-${i + k}`, namespace: 'default', pattern: `/many/${i + k}`, endpoint: { url: `${endpoint}/200` } })))
  }
  say(`processor of the server with 9,900 more active subscriptions: ${await cost()}`)
})

/** The share of a core that a process takes over so many seconds. */
async function over(pid, seconds) {
  const before = await processor(pid)
  await pause(seconds * 1000)
  return (await processor(pid) - before) / seconds
}
