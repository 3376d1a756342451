// The public suite, version 0.3.6: the base protocol and its subscriptions.
import { runConformanceTests } from '@durable-streams/server-conformance-tests'
import { inject } from 'vitest'

runConformanceTests({ baseUrl: inject('base'), subscriptions: true, longPollTimeoutMs: 500 })
