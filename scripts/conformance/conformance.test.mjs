// The public suite of the base protocol, version 0.3.6. What it has for subscriptions is not served.
import { runConformanceTests } from '@durable-streams/server-conformance-tests'
import { inject } from 'vitest'

runConformanceTests({ baseUrl: inject('base'), subscriptions: false, longPollTimeoutMs: 500 })
