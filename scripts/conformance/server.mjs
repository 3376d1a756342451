// A real server on free ports with an empty data directory, whose default namespace needs no token: the suite
// has none to show. SLUICE_BIN is the program.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const binary = resolve(process.env.SLUICE_BIN ?? '../../bin/sluice')

export default async function setup(project) {
  const data = await mkdtemp(join(tmpdir(), 'sluice-conformance-'))
  const env = { ...process.env, SLUICE_DURABLE_ANONYMOUS: 'default', SLUICE_DURABLE_LONG_POLL: '500ms', SLUICE_WEBHOOKS_ALLOW_INSECURE_LOOPBACK: 'true', SLUICE_LOG_LEVEL: 'warn' }
  const args = ['serve', '--data', data, '--http', '127.0.0.1:0', '--nats-listen', 'none']
  const child = spawn(binary, args, { env, stdio: ['ignore', 'inherit', 'inherit'] })
  const ended = once(child, 'exit')
  for (const end = Date.now() + 60_000; ; await pause(50)) {
    const addresses = await readFile(join(data, 'addresses.json'), 'utf8').then(JSON.parse).catch(() => undefined)
    if (addresses) {
      project.provide('base', addresses.http + '/streams/default')
      break
    }
    if (child.exitCode !== null || Date.now() > end) throw new Error('the server did not start')
  }
  return async () => {
    child.kill('SIGTERM')
    await ended
    await rm(data, { recursive: true, force: true })
  }
}
