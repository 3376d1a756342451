// A reader in a thread of Node, which can be held up without holding up the test.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { EventSource } from 'eventsource'
import { WebSocket } from 'ws'

const { dir, how, wish, gate } = workerData
globalThis.EventSource = EventSource
globalThis.WebSocket ??= WebSocket // Node has one from 22 on

parentPort.on('message', () => {
  Atomics.store(gate, 0, 1)
  Atomics.wait(gate, 0, 1)
})
const { read } = await import(pathToFileURL(join(dir, 'reader.js')))
read(how, wish, (what) => parentPort.postMessage(what))
