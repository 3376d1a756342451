import type { JSX } from 'preact'
import type { Call } from '../lib/api.js'
import { quoted } from '../lib/format.js'
import type { Code } from '../lib/load.js'
import { server } from '../lib/session.js'
import { CodeLine } from './basic.js'

/** A request as a line for curl. The token is a variable, so that the line can be shared. */
export function curl({ method, path, body }: Call): string {
  const parts = ['curl', ...(method === 'GET' ? [] : ['-X', method]), '-H', '"Authorization: Bearer $SLUICE_TOKEN"', quoted(server + path)]
  if (body !== undefined && body !== '') parts.push('-H', quoted('Content-Type: application/json'), '-d', quoted(body))
  return parts.join(' ')
}

/** The same event for an endpoint, without a signature, as a line for curl. */
export function webhookCurl(url: string, event: unknown, id: string): string {
  return ['curl', '-X', 'POST', quoted(url), '-H', quoted('Content-Type: application/cloudevents+json'), '-H', quoted(`webhook-id: ${id}`), '-d', quoted(JSON.stringify(event))].join(' ')
}

/** The command, the HTTP calls and the line of `nats` that show or do the same. */
export function CodeOf({ code }: { code: Code }): JSX.Element {
  return (
    <div class="codes">
      <CodeLine label="Command line" text={code.cli} />
      {code.calls.map((call) => <CodeLine key={call.method + call.path} label="HTTP" text={curl(call)} />)}
      {code.nats && <CodeLine label="NATS" text={code.nats} />}
    </div>
  )
}
