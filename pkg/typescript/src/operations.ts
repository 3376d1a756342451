// Generated from the OpenAPI document by `make clients`. Do not edit.

import type { Args, Frame, Options } from './client.js'
import type * as T from './types.js'

/** The operations of the API. The class Sluice sends them. */
export abstract class Operations {
  protected abstract call<R>(method: string, path: string, args: Args, headers: string[], options: Options): Promise<R>
  protected abstract whole(method: string, path: string, args: Args, headers: string[], options: Options): Promise<Response>
  protected abstract frames<F>(path: string, args: Args, options: Options): AsyncGenerator<Frame<F>, void, undefined>

  /** Acknowledge progress of a worker: `POST /streams/{ns}/__ds/subscriptions/{id}/ack`. */
  ackWake(args: { ns: T.NamespaceName; id: string; body: T.DsubCall }, options: Options = {}): Promise<T.AckWakeResult> {
    return this.call('POST', '/streams/{ns}/__ds/subscriptions/{id}/ack', args, [], options)
  }

  /** Append to a stream, close it, or both: `POST /streams/{ns}/{path}`. */
  appendToStream(args: { ns: T.NamespaceName; path: string; body?: T.Bytes | undefined; stream_closed?: string | undefined; stream_seq?: string | undefined; producer_id?: string | undefined; producer_epoch?: number | undefined; producer_seq?: number | undefined; content_type?: string | undefined }, options: Options = {}): Promise<Response> {
    return this.whole('POST', '/streams/{ns}/{path}', args, ['Stream-Closed', 'Stream-Seq', 'Producer-Id', 'Producer-Epoch', 'Producer-Seq', 'Content-Type'], options)
  }

  /** Have the programs of a module run: `POST /v1/modules/{module}/approve`. */
  approveModule(args: { module: string; body: T.ApproveModuleBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Module> {
    return this.call('POST', '/v1/modules/{module}/approve', args, ['Idempotency-Key'], options)
  }

  /** Report progress of a webhook worker: `POST /streams/{ns}/__ds/subscriptions/{id}/callback`. */
  callbackWake(args: { ns: T.NamespaceName; id: string; body: T.DsubCall }, options: Options = {}): Promise<T.CallbackWakeResult> {
    return this.call('POST', '/streams/{ns}/__ds/subscriptions/{id}/callback', args, [], options)
  }

  /** Cancel an appointment: `DELETE /v1/namespaces/{ns}/appointments/{id}`. */
  cancelAppointment(args: { ns: T.NamespaceName; id: string; if_match?: string | undefined }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/appointments/{id}', args, ['If-Match'], options)
  }

  /** Cancel a replay: `POST /v1/subscriptions/{id}/replays/{replay}/cancel`. */
  cancelReplay(args: { id: T.SubscriptionID; replay: string; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/replays/{replay}/cancel', args, ['Idempotency-Key'], options)
  }

  /** Cancel a scheduled event: `DELETE /v1/namespaces/{ns}/scheduled/{event}`. */
  cancelScheduled(args: { ns: T.NamespaceName; event: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/scheduled/{event}', args, [], options)
  }

  /** Acknowledge, ignore or reopen a problem, or change its note: `PATCH /v1/problems/{problem}`. */
  changeProblem(args: { problem: string; body: T.ProblemChange }, options: Options = {}): Promise<T.Problem> {
    return this.call('PATCH', '/v1/problems/{problem}', args, [], options)
  }

  /** Claim enrichment jobs for a worker: `POST /v1/namespaces/{ns}/jobs/claim`. */
  claimJobs(args: { ns: T.NamespaceName; body: T.ClaimJobsBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.ClaimJobsResult> {
    return this.call('POST', '/v1/namespaces/{ns}/jobs/claim', args, ['Idempotency-Key'], options)
  }

  /** Claim the wake of a pull-wake subscription: `POST /streams/{ns}/__ds/subscriptions/{id}/claim`. */
  claimWake(args: { ns: T.NamespaceName; id: string; body: T.ClaimWakeBody }, options: Options = {}): Promise<T.ClaimWakeResult> {
    return this.call('POST', '/streams/{ns}/__ds/subscriptions/{id}/claim', args, [], options)
  }

  /** Clear the unsafe mark of a producer: `DELETE /v1/producers/unsafe/{producer}`. */
  clearUnsafeProducer(args: { producer: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/producers/unsafe/{producer}', args, [], options)
  }

  /** Store the result of a claimed job: `POST /v1/namespaces/{ns}/jobs/{job}/complete`. */
  completeJob(args: { ns: T.NamespaceName; job: string; body: T.CompleteJobBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<void> {
    return this.call('POST', '/v1/namespaces/{ns}/jobs/{job}/complete', args, ['Idempotency-Key'], options)
  }

  /** Create a ticket for feeds: `POST /v1/namespaces/{ns}/feed/tickets`. */
  createFeedTicket(args: { ns: T.NamespaceName; body?: T.FeedTicketRequest | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.FeedTicket> {
    return this.call('POST', '/v1/namespaces/{ns}/feed/tickets', args, ['Idempotency-Key'], options)
  }

  /** Create a subscription in a namespace: `POST /v1/namespaces/{ns}/subscriptions`. */
  createNamespaceSubscription(args: { ns: T.NamespaceName; body: T.SubscriptionRequest | T.TargetRequest | T.MirrorRequest; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Subscription | T.SubscriptionWithSecret | T.Mirror> {
    return this.call('POST', '/v1/namespaces/{ns}/subscriptions', args, ['Idempotency-Key'], options)
  }

  /** Create a link that opens the portal once: `POST /v1/portal/links`. */
  createPortalLink(args: { body: T.PortalLinkRequest; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.PortalLink> {
    return this.call('POST', '/v1/portal/links', args, ['Idempotency-Key'], options)
  }

  /** Exchange the code of a link for the token of a session: `POST /v1/portal/sessions`. */
  createPortalSession(args: { body: T.CreatePortalSessionBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.PortalSession> {
    return this.call('POST', '/v1/portal/sessions', args, ['Idempotency-Key'], options)
  }

  /** Create a stream, or confirm an identical one: `PUT /streams/{ns}/{path}`. */
  createStream(args: { ns: T.NamespaceName; path: string; body?: unknown | undefined; subscription?: T.SubscriptionID | undefined; stream_ttl?: string | undefined; stream_expires_at?: string | undefined; stream_closed?: string | undefined; stream_forked_from?: string | undefined; stream_fork_offset?: string | undefined; stream_fork_sub_offset?: number | undefined; content_type?: string | undefined }, options: Options = {}): Promise<Response> {
    return this.whole('PUT', '/streams/{ns}/{path}', args, ['Stream-TTL', 'Stream-Expires-At', 'Stream-Closed', 'Stream-Forked-From', 'Stream-Fork-Offset', 'Stream-Fork-Sub-Offset', 'Content-Type'], options)
  }

  /** Create a subscription: `POST /v1/subscriptions`. */
  createSubscription(args: { body: T.SubscriptionRequest | T.TargetRequest | T.MirrorRequest; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Subscription | T.SubscriptionWithSecret | T.Mirror> {
    return this.call('POST', '/v1/subscriptions', args, ['Idempotency-Key'], options)
  }

  /** Create up to 1,000 subscriptions: `POST /v1/subscriptions/batch`. */
  createSubscriptions(args: { body: (T.SubscriptionRequest | T.TargetRequest)[] | T.Bytes; dry_run?: boolean | undefined; content_type?: string | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.CreateSubscriptionsResult> {
    return this.call('POST', '/v1/subscriptions/batch', args, ['Content-Type', 'Idempotency-Key'], options)
  }

  /** Remove a principal from the access list: `DELETE /v1/namespaces/{ns}/acl/{principal}`. */
  deleteACL(args: { ns: T.NamespaceName; principal: T.Principal }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/acl/{principal}', args, [], options)
  }

  /** End the enrichment of a namespace, and remove its embeddings and comparisons: `DELETE /v1/namespaces/{ns}/enrichment`. */
  deleteEnrichment(args: { ns: T.NamespaceName }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/enrichment', args, [], options)
  }

  /** Delete an event type: `DELETE /v1/namespaces/{ns}/event-types/{type}`. */
  deleteEventType(args: { ns: T.NamespaceName; type: string; if_match?: string | undefined }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/event-types/{type}', args, ['If-Match'], options)
  }

  /** Delete a namespace with its subscriptions and events: `DELETE /v1/namespaces/{ns}`. */
  deleteNamespace(args: { ns: T.NamespaceName }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}', args, [], options)
  }

  /** Delete the clearance of a principal, which is PUBLIC afterwards: `DELETE /v1/principals/{principal}`. */
  deletePrincipal(args: { principal: T.Principal }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/principals/{principal}', args, [], options)
  }

  /** Delete a stream: `DELETE /streams/{ns}/{path}`. */
  deleteStream(args: { ns: T.NamespaceName; path: string; subscription?: T.SubscriptionID | undefined }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/streams/{ns}/{path}', args, [], options)
  }

  /** Delete a stream subscription: `DELETE /streams/{ns}/__ds/subscriptions/{id}`. */
  deleteStreamSubscription(args: { ns: T.NamespaceName; id: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/streams/{ns}/__ds/subscriptions/{id}', args, [], options)
  }

  /** Delete a subscription: `DELETE /v1/subscriptions/{id}`. */
  deleteSubscription(args: { id: T.SubscriptionID }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/subscriptions/{id}', args, [], options)
  }

  /** Revoke a key; nothing that it signed is imported any more: `DELETE /v1/namespaces/{ns}/trusted-keys/{kid}`. */
  deleteTrustedKey(args: { ns: T.NamespaceName; kid: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/trusted-keys/{kid}', args, [], options)
  }

  /** Cancel a watch: `DELETE /v1/namespaces/{ns}/watches/{id}`. */
  deleteWatch(args: { ns: T.NamespaceName; id: T.SubscriptionID }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/namespaces/{ns}/watches/{id}', args, [], options)
  }

  /** Stop the programs of a module: `POST /v1/modules/{module}/disable`. */
  disableModule(args: { module: string; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Module> {
    return this.call('POST', '/v1/modules/{module}/disable', args, ['Idempotency-Key'], options)
  }

  /** Discard a dead letter: `DELETE /v1/subscriptions/{id}/dead-letters/{event}`. */
  discardDeadLetter(args: { id: T.SubscriptionID; event: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/subscriptions/{id}/dead-letters/{event}', args, [], options)
  }

  /** Discard all dead letters of a subscription: `DELETE /v1/subscriptions/{id}/dead-letters`. */
  discardDeadLetters(args: { id: T.SubscriptionID; all: true }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/subscriptions/{id}/dead-letters', args, [], options)
  }

  /** Discard the event that holds its lane: `POST /v1/subscriptions/{id}/deliveries/{event}/discard`. */
  discardDelivery(args: { id: T.SubscriptionID; event: string; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/deliveries/{event}/discard', args, ['Idempotency-Key'], options)
  }

  /** Erase everything on a path, permanently: `POST /v1/namespaces/{ns}/tombstones`. */
  entomb(args: { ns: T.NamespaceName; body: T.EntombBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Tombstone> {
    return this.call('POST', '/v1/namespaces/{ns}/tombstones', args, ['Idempotency-Key'], options)
  }

  /** Export the changes of a namespace as a signed bundle: `GET /v1/namespaces/{ns}/export`. */
  exportBundle(args: { ns: T.NamespaceName; since?: number | undefined; scope?: "catalog" | "claims" | "entries" | "summary" | "full" | undefined; previous?: string | undefined; form?: "document" | "directory" | undefined; max_bytes?: number | undefined }, options: Options = {}): Promise<T.Bundle> {
    return this.call('GET', '/v1/namespaces/{ns}/export', args, [], options)
  }

  /** Report that a claimed job could not be done: `POST /v1/namespaces/{ns}/jobs/{job}/fail`. */
  failJob(args: { ns: T.NamespaceName; job: string; body: T.FailJobBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Job> {
    return this.call('POST', '/v1/namespaces/{ns}/jobs/{job}/fail', args, ['Idempotency-Key'], options)
  }

  /** Stream events live: `GET /v1/namespaces/{ns}/feed`. */
  feed(args: { ns: T.NamespaceName; pattern?: string | undefined; types?: string | undefined; sources?: string[] | undefined; subjects?: string[] | undefined; labels?: string[] | undefined; cel?: string | undefined; filter?: string | undefined; target?: string | undefined; since?: string | undefined; incarnation?: string | undefined; projection?: "full" | "summary" | "none" | undefined; buffer?: number | undefined; coalesce_labels?: string | undefined; coalesce_window_ms?: number | undefined; coalesce_keep?: "latest" | "first" | undefined; coalesce?: string | undefined }, options: Options = {}): AsyncGenerator<Frame<T.FeedFrame>, void, undefined> {
    return this.frames('/v1/namespaces/{ns}/feed', args, options)
  }

  /** Follow the entries of a mirror live: `GET /v1/namespaces/{ns}/items/feed`. */
  followMirror(args: { ns: T.NamespaceName; subscription: string; after?: number | undefined; path_prefix?: string | undefined; incarnation?: string | undefined }, options: Options = {}): AsyncGenerator<Frame<T.MirrorFrame>, void, undefined> {
    return this.frames('/v1/namespaces/{ns}/items/feed', args, options)
  }

  /** Acknowledge the damage that was found: `DELETE /v1/storage/damage`. */
  forgetStorageDamage(options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/storage/damage', {}, [], options)
  }

  /** Get the access list entries of a principal: `GET /v1/namespaces/{ns}/acl/{principal}`. */
  getACL(args: { ns: T.NamespaceName; principal: T.Principal }, options: Options = {}): Promise<T.ACL> {
    return this.call('GET', '/v1/namespaces/{ns}/acl/{principal}', args, [], options)
  }

  /** Get an appointment: `GET /v1/namespaces/{ns}/appointments/{id}`. */
  getAppointment(args: { ns: T.NamespaceName; id: string }, options: Options = {}): Promise<T.Appointment> {
    return this.call('GET', '/v1/namespaces/{ns}/appointments/{id}', args, [], options)
  }

  /** Get the features and limits of this server: `GET /v1/capabilities`. */
  getCapabilities(args: { namespace?: string | undefined } = {}, options: Options = {}): Promise<T.Capabilities> {
    return this.call('GET', '/v1/capabilities', args, [], options)
  }

  /** Show the comparisons of an entry: `GET /v1/namespaces/{ns}/comparisons/{entry}`. */
  getComparisons(args: { ns: T.NamespaceName; entry: string }, options: Options = {}): Promise<T.GetComparisonsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/comparisons/{entry}', args, [], options)
  }

  /** Get a consumer with the ends of its streams and the attempts of its last wake: `GET /v1/subscriptions/{id}/consumers/{consumer}`. */
  getConsumer(args: { id: T.SubscriptionID; consumer: string }, options: Options = {}): Promise<T.WakeConsumer> {
    return this.call('GET', '/v1/subscriptions/{id}/consumers/{consumer}', args, [], options)
  }

  /** Get a dead letter with its event and its attempts: `GET /v1/subscriptions/{id}/dead-letters/{event}`. */
  getDeadLetter(args: { id: T.SubscriptionID; event: string }, options: Options = {}): Promise<T.DeadLetter> {
    return this.call('GET', '/v1/subscriptions/{id}/dead-letters/{event}', args, [], options)
  }

  /** Explain the delivery of an event: `GET /v1/subscriptions/{id}/deliveries/{event}`. */
  getDelivery(args: { id: T.SubscriptionID; event: string }, options: Options = {}): Promise<T.Delivery> {
    return this.call('GET', '/v1/subscriptions/{id}/deliveries/{event}', args, [], options)
  }

  /** Show the enrichment of a namespace: `GET /v1/namespaces/{ns}/enrichment`. */
  getEnrichment(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.GetEnrichmentResult> {
    return this.call('GET', '/v1/namespaces/{ns}/enrichment', args, [], options)
  }

  /** Get an event: `GET /v1/namespaces/{ns}/events/{event}`. */
  getEvent(args: { ns: T.NamespaceName; event: string }, options: Options = {}): Promise<T.CloudEvent> {
    return this.call('GET', '/v1/namespaces/{ns}/events/{event}', args, [], options)
  }

  /** Get an event type: `GET /v1/namespaces/{ns}/event-types/{type}`. */
  getEventType(args: { ns: T.NamespaceName; type: string }, options: Options = {}): Promise<T.EventType> {
    return this.call('GET', '/v1/namespaces/{ns}/event-types/{type}', args, [], options)
  }

  /** Get a grant, without its token: `GET /v1/grants/{grant}`. */
  getGrant(args: { grant: T.GrantID }, options: Options = {}): Promise<T.Grant> {
    return this.call('GET', '/v1/grants/{grant}', args, [], options)
  }

  /** Show an enrichment job: `GET /v1/namespaces/{ns}/jobs/{job}`. */
  getJob(args: { ns: T.NamespaceName; job: string }, options: Options = {}): Promise<T.Job> {
    return this.call('GET', '/v1/namespaces/{ns}/jobs/{job}', args, [], options)
  }

  /** Get the public keys of the signature schemes ed25519 and rfc9421: `GET /.well-known/jwks.json`. */
  getKeys(options: Options = {}): Promise<T.GetKeysResult> {
    return this.call('GET', '/.well-known/jwks.json', {}, [], options)
  }

  /** Show a module and its processes: `GET /v1/modules/{module}`. */
  getModule(args: { module: string }, options: Options = {}): Promise<T.Module> {
    return this.call('GET', '/v1/modules/{module}', args, [], options)
  }

  /** Get a namespace and its usage: `GET /v1/namespaces/{ns}`. */
  getNamespace(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.Namespace> {
    return this.call('GET', '/v1/namespaces/{ns}', args, [], options)
  }

  /** Sum up the deliveries of all subscriptions: `GET /v1/overview`. */
  getOverview(args: { namespace?: T.NamespaceName | undefined } = {}, options: Options = {}): Promise<T.Overview> {
    return this.call('GET', '/v1/overview', args, [], options)
  }

  /** Get the clearance of a principal: `GET /v1/principals/{principal}`. */
  getPrincipal(args: { principal: T.Principal }, options: Options = {}): Promise<T.Profile> {
    return this.call('GET', '/v1/principals/{principal}', args, [], options)
  }

  /** Get a problem: `GET /v1/problems/{problem}`. */
  getProblem(args: { problem: string }, options: Options = {}): Promise<T.Problem> {
    return this.call('GET', '/v1/problems/{problem}', args, [], options)
  }

  /** Get the name and version of the server, and the URLs of its documentation: `GET /`. */
  getProduct(options: Options = {}): Promise<T.Product> {
    return this.call('GET', '/', {}, [], options)
  }

  /** Get a profile of the process, for `go tool pprof`: `GET /v1/debug/pprof/{profile}`. */
  getProfile(args: { profile: "allocs" | "block" | "goroutine" | "heap" | "mutex" | "profile" | "threadcreate" | "trace"; seconds?: number | undefined; debug?: 0 | 1 | 2 | undefined }, options: Options = {}): Promise<void> {
    return this.call('GET', '/v1/debug/pprof/{profile}', args, [], options)
  }

  /** Get a replay and its progress: `GET /v1/subscriptions/{id}/replays/{replay}`. */
  getReplay(args: { id: T.SubscriptionID; replay: string }, options: Options = {}): Promise<T.Replay> {
    return this.call('GET', '/v1/subscriptions/{id}/replays/{replay}', args, [], options)
  }

  /** Get a scheduled event: `GET /v1/namespaces/{ns}/scheduled/{event}`. */
  getScheduled(args: { ns: T.NamespaceName; event: string }, options: Options = {}): Promise<T.ScheduledEvent> {
    return this.call('GET', '/v1/namespaces/{ns}/scheduled/{event}', args, [], options)
  }

  /** List the keys that seal the secrets in the store: `GET /v1/secrets`. */
  getSealing(options: Options = {}): Promise<T.Sealing> {
    return this.call('GET', '/v1/secrets', {}, [], options)
  }

  /** Get the latest event on one path: `GET /v1/namespaces/{ns}/state/{path}`. */
  getState(args: { ns: T.NamespaceName; path: string; at_seq?: number | undefined }, options: Options = {}): Promise<T.CloudEvent> {
    return this.call('GET', '/v1/namespaces/{ns}/state/{path}', args, [], options)
  }

  /** Get the attempts of a subscription over the last day, in steps: `GET /v1/subscriptions/{id}/statistics`. */
  getStatistics(args: { id: T.SubscriptionID; since?: string | undefined; step?: "1m" | "5m" | "1h" | undefined }, options: Options = {}): Promise<T.Statistics> {
    return this.call('GET', '/v1/subscriptions/{id}/statistics', args, [], options)
  }

  /** Get the status of a subscription: `GET /v1/subscriptions/{id}/status`. */
  getStatus(args: { id: T.SubscriptionID }, options: Options = {}): Promise<T.Status | T.MirrorStatus> {
    return this.call('GET', '/v1/subscriptions/{id}/status', args, [], options)
  }

  /** Get the storage usage: `GET /v1/storage`. */
  getStorage(options: Options = {}): Promise<T.Storage> {
    return this.call('GET', '/v1/storage', {}, [], options)
  }

  /** Get a subscription and the acknowledged offsets of its streams: `GET /streams/{ns}/__ds/subscriptions/{id}`. */
  getStreamSubscription(args: { ns: T.NamespaceName; id: string }, options: Options = {}): Promise<T.Dsub> {
    return this.call('GET', '/streams/{ns}/__ds/subscriptions/{id}', args, [], options)
  }

  /** Get a subscription: `GET /v1/subscriptions/{id}`. */
  getSubscription(args: { id: T.SubscriptionID }, options: Options = {}): Promise<T.AnySubscription> {
    return this.call('GET', '/v1/subscriptions/{id}', args, [], options)
  }

  /** Get a watch: `GET /v1/namespaces/{ns}/watches/{id}`. */
  getWatch(args: { ns: T.NamespaceName; id: T.SubscriptionID }, options: Options = {}): Promise<T.Watch> {
    return this.call('GET', '/v1/namespaces/{ns}/watches/{id}', args, [], options)
  }

  /** Get the end of the stream of a mirror: `HEAD /v1/namespaces/{ns}/items/stream`. */
  headMirrorStream(args: { ns: T.NamespaceName; subscription: string }, options: Options = {}): Promise<Response> {
    return this.whole('HEAD', '/v1/namespaces/{ns}/items/stream', args, [], options)
  }

  /** Get the metadata of a stream: `HEAD /streams/{ns}/{path}`. */
  headStream(args: { ns: T.NamespaceName; path: string }, options: Options = {}): Promise<Response> {
    return this.whole('HEAD', '/streams/{ns}/{path}', args, [], options)
  }

  /** Same as /livez, for checks that know this name: `GET /healthz`. */
  healthz(options: Options = {}): Promise<T.OK> {
    return this.call('GET', '/healthz', {}, [], options)
  }

  /** Apply a bundle to the mirror of its source: `POST /v1/namespaces/{ns}/import`. */
  importBundle(args: { ns: T.NamespaceName; body: T.Bundle | T.Bytes; accept_gap?: boolean | undefined; content_type?: string | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.BundleImport | T.BundleArrival> {
    return this.call('POST', '/v1/namespaces/{ns}/import', args, ['Content-Type', 'Idempotency-Key'], options)
  }

  /** Link streams to a subscription: `POST /streams/{ns}/__ds/subscriptions/{id}/streams`. */
  linkStreams(args: { ns: T.NamespaceName; id: string; body: T.LinkStreamsBody }, options: Options = {}): Promise<void> {
    return this.call('POST', '/streams/{ns}/__ds/subscriptions/{id}/streams', args, [], options)
  }

  /** Get the access list of a namespace, by principal: `GET /v1/namespaces/{ns}/acl`. */
  listACL(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.ListACLResult> {
    return this.call('GET', '/v1/namespaces/{ns}/acl', args, [], options)
  }

  /** List appointments, soonest first: `GET /v1/namespaces/{ns}/appointments`. */
  listAppointments(args: { ns: T.NamespaceName; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListAppointmentsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/appointments', args, [], options)
  }

  /** Follow attempts as they happen: `GET /v1/namespaces/{ns}/attempts`. */
  listAttempts(args: { ns: T.NamespaceName; after?: string | undefined; wait?: string | undefined; subscription?: string | undefined; limit?: number | undefined }, options: Options = {}): Promise<T.ListAttemptsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/attempts', args, [], options)
  }

  /** List ledger entries, newest first: `GET /v1/audit`. */
  listAudit(args: { namespace?: T.NamespaceName | undefined; resource?: string | undefined; action?: string | undefined; actor?: string | undefined; since?: string | undefined; until?: string | undefined; limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListAuditResult> {
    return this.call('GET', '/v1/audit', args, [], options)
  }

  /** List the public keys that sign the bundles of a namespace: `GET /v1/namespaces/{ns}/bundle-keys`. */
  listBundleKeys(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.ListBundleKeysResult> {
    return this.call('GET', '/v1/namespaces/{ns}/bundle-keys', args, [], options)
  }

  /** List the consumers of a subscription of mode wake, by path: `GET /v1/subscriptions/{id}/consumers`. */
  listConsumers(args: { id: T.SubscriptionID; state?: T.WakeState | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListConsumersResult> {
    return this.call('GET', '/v1/subscriptions/{id}/consumers', args, [], options)
  }

  /** List dead letters without their events, newest first: `GET /v1/subscriptions/{id}/dead-letters`. */
  listDeadLetters(args: { id: T.SubscriptionID; reason?: T.Reason | undefined; path?: string | undefined; since?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListDeadLettersResult> {
    return this.call('GET', '/v1/subscriptions/{id}/dead-letters', args, [], options)
  }

  /** List deliveries by their latest change, newest first: `GET /v1/subscriptions/{id}/deliveries`. */
  listDeliveries(args: { id: T.SubscriptionID; state?: "delivered" | "retrying" | "held" | "parked" | "dead" | "failed" | undefined; since?: string | undefined; until?: string | undefined; path?: string | undefined; event_type?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListDeliveriesResult> {
    return this.call('GET', '/v1/subscriptions/{id}/deliveries', args, [], options)
  }

  /** Explain an event to every subscription: `GET /v1/namespaces/{ns}/events/{event}/deliveries`. */
  listEventDeliveries(args: { ns: T.NamespaceName; event: string; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.EventDeliveries> {
    return this.call('GET', '/v1/namespaces/{ns}/events/{event}/deliveries', args, [], options)
  }

  /** List the event types in the catalogue of a namespace, newest first: `GET /v1/namespaces/{ns}/event-types`. */
  listEventTypes(args: { ns: T.NamespaceName; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListEventTypesResult> {
    return this.call('GET', '/v1/namespaces/{ns}/event-types', args, [], options)
  }

  /** List events in log order: `GET /v1/namespaces/{ns}/events`. */
  listEvents(args: { ns: T.NamespaceName; pattern?: string | undefined; types?: string | undefined; since?: string | undefined; until?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListEventsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/events', args, [], options)
  }

  /** List the grants visible to the caller, newest first: `GET /v1/grants`. */
  listGrants(args: { principal?: T.Principal | undefined; namespace?: T.NamespaceName | undefined; state?: "active" | "all" | undefined; limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListGrantsResult> {
    return this.call('GET', '/v1/grants', args, [], options)
  }

  /** List subscriptions by the health of their deliveries, worst first: `GET /v1/health/subscriptions`. */
  listHealth(args: { namespace?: T.NamespaceName | undefined; health?: string | undefined; sparkline?: boolean | undefined; limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListHealthResult> {
    return this.call('GET', '/v1/health/subscriptions', args, [], options)
  }

  /** List the entries of a namespace and of its mirrors: `GET /v1/namespaces/{ns}/items`. */
  listItems(args: { ns: T.NamespaceName; source?: "local" | "mirrored" | "all" | undefined; subscription?: string | undefined; path_prefix?: string | undefined; after?: string | undefined; limit?: number | undefined }, options: Options = {}): Promise<T.ListItemsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/items', args, [], options)
  }

  /** List enrichment jobs: `GET /v1/namespaces/{ns}/jobs`. */
  listJobs(args: { ns: T.NamespaceName; state?: T.JobState | undefined; type?: T.JobType | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListJobsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/jobs', args, [], options)
  }

  /** List the server's own keys, without secrets: `GET /v1/keys`. */
  listKeys(options: Options = {}): Promise<T.ListKeysResult> {
    return this.call('GET', '/v1/keys', {}, [], options)
  }

  /** List the modules of the server: `GET /v1/modules`. */
  listModules(options: Options = {}): Promise<T.ListModulesResult> {
    return this.call('GET', '/v1/modules', {}, [], options)
  }

  /** List the subscriptions of a namespace that the caller manages, newest first: `GET /v1/namespaces/{ns}/subscriptions`. */
  listNamespaceSubscriptions(args: { ns: T.NamespaceName; order?: "created" | "id" | undefined; mode?: T.Mode | undefined; state?: T.State | undefined; source?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListNamespaceSubscriptionsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/subscriptions', args, [], options)
  }

  /** List the namespaces visible to the caller, newest first: `GET /v1/namespaces`. */
  listNamespaces(args: { limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListNamespacesResult> {
    return this.call('GET', '/v1/namespaces', args, [], options)
  }

  /** List the clearances of principals, by name: `GET /v1/principals`. */
  listPrincipals(options: Options = {}): Promise<T.ListPrincipalsResult> {
    return this.call('GET', '/v1/principals', {}, [], options)
  }

  /** List problems, the open ones first, and of these the oldest: `GET /v1/problems`. */
  listProblems(args: { namespace?: T.NamespaceName | undefined; subscription?: T.SubscriptionID | undefined; state?: T.ProblemState | undefined; limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListProblemsResult> {
    return this.call('GET', '/v1/problems', args, [], options)
  }

  /** List the replays of a subscription, newest first: `GET /v1/subscriptions/{id}/replays`. */
  listReplays(args: { id: T.SubscriptionID }, options: Options = {}): Promise<T.ListReplaysResult> {
    return this.call('GET', '/v1/subscriptions/{id}/replays', args, [], options)
  }

  /** List the entries that were compared: `GET /v1/namespaces/{ns}/comparisons`. */
  listReviews(args: { ns: T.NamespaceName; needs_review?: boolean | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListReviewsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/comparisons', args, [], options)
  }

  /** List scheduled events, soonest first: `GET /v1/namespaces/{ns}/scheduled`. */
  listScheduled(args: { ns: T.NamespaceName; pattern?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListScheduledResult> {
    return this.call('GET', '/v1/namespaces/{ns}/scheduled', args, [], options)
  }

  /** List the settings of the server that answers, without secrets: `GET /v1/settings`. */
  listSettings(options: Options = {}): Promise<T.ListSettingsResult> {
    return this.call('GET', '/v1/settings', {}, [], options)
  }

  /** Get the latest event on each path at a given sequence: `GET /v1/namespaces/{ns}/state`. */
  listState(args: { ns: T.NamespaceName; pattern?: string | undefined; types?: string | undefined; sources?: string[] | undefined; subjects?: string[] | undefined; labels?: string[] | undefined; cel?: string | undefined; filter?: string | undefined; target?: string | undefined; at_seq?: number | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListStateResult> {
    return this.call('GET', '/v1/namespaces/{ns}/state', args, [], options)
  }

  /** List the events of a subscription within its replay window: `GET /v1/subscriptions/{id}/events`. */
  listSubscriptionEvents(args: { id: T.SubscriptionID; after?: string | undefined; types?: string | undefined; limit?: number | undefined; wait?: T.Duration | undefined; envelope?: "cloudevents" | "fact" | undefined }, options: Options = {}): Promise<T.ListSubscriptionEventsResult> {
    return this.call('GET', '/v1/subscriptions/{id}/events', args, [], options)
  }

  /** List the subscriptions that the caller manages, newest first: `GET /v1/subscriptions`. */
  listSubscriptions(args: { order?: "created" | "id" | undefined; namespace?: string | undefined; mode?: T.Mode | undefined; state?: T.State | undefined; source?: string | undefined; limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListSubscriptionsResult> {
    return this.call('GET', '/v1/subscriptions', args, [], options)
  }

  /** List the tombstones of a namespace, by path: `GET /v1/namespaces/{ns}/tombstones`. */
  listTombstones(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.ListTombstonesResult> {
    return this.call('GET', '/v1/namespaces/{ns}/tombstones', args, [], options)
  }

  /** List the paths of a namespace and of its mirrors: `GET /v1/namespaces/{ns}/topics`. */
  listTopics(args: { ns: T.NamespaceName; include_mirrored?: boolean | undefined; path_prefix?: string | undefined; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListTopicsResult> {
    return this.call('GET', '/v1/namespaces/{ns}/topics', args, [], options)
  }

  /** List the keys whose bundles a namespace imports: `GET /v1/namespaces/{ns}/trusted-keys`. */
  listTrustedKeys(args: { ns: T.NamespaceName }, options: Options = {}): Promise<T.ListTrustedKeysResult> {
    return this.call('GET', '/v1/namespaces/{ns}/trusted-keys', args, [], options)
  }

  /** List unsafe producers, most recent first: `GET /v1/producers/unsafe`. */
  listUnsafeProducers(args: { limit?: number | undefined; cursor?: string | undefined } = {}, options: Options = {}): Promise<T.ListUnsafeProducersResult> {
    return this.call('GET', '/v1/producers/unsafe', args, [], options)
  }

  /** List the watches of a namespace that the caller manages, newest first: `GET /v1/namespaces/{ns}/watches`. */
  listWatches(args: { ns: T.NamespaceName; limit?: number | undefined; cursor?: string | undefined }, options: Options = {}): Promise<T.ListWatchesResult> {
    return this.call('GET', '/v1/namespaces/{ns}/watches', args, [], options)
  }

  /** Check that the process runs and answers; nothing else is looked at: `GET /livez`. */
  livez(options: Options = {}): Promise<T.OK> {
    return this.call('GET', '/livez', {}, [], options)
  }

  /** Try a subscription's pattern and filter on an event: `POST /v1/subscriptions/{id}/match`. */
  matchSubscription(args: { id: T.SubscriptionID; body?: T.MatchSubscriptionBody | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.MatchSubscriptionResult> {
    return this.call('POST', '/v1/subscriptions/{id}/match', args, ['Idempotency-Key'], options)
  }

  /** Issue a grant: `POST /v1/grants`. */
  mintGrant(args: { body: T.GrantRequest; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Minted> {
    return this.call('POST', '/v1/grants', args, ['Idempotency-Key'], options)
  }

  /** List the changes of a namespace, as another namespace follows it: `GET /v1/namespaces/{ns}/observe`. */
  observe(args: { ns: T.NamespaceName; since?: number | undefined; limit?: number | undefined; depth?: "catalog" | "summary" | "full" | "claims" | "entries" | undefined }, options: Options = {}): Promise<T.ObservePage> {
    return this.call('GET', '/v1/namespaces/{ns}/observe', args, [], options)
  }

  /** Update a subscription with a JSON merge patch: `PATCH /v1/subscriptions/{id}`. */
  patchSubscription(args: { id: T.SubscriptionID; body: T.SubscriptionEdit; if_match?: string | undefined }, options: Options = {}): Promise<T.AnySubscription> {
    return this.call('PATCH', '/v1/subscriptions/{id}', args, ['If-Match'], options)
  }

  /** Pause deliveries; events wait in the log: `POST /v1/subscriptions/{id}/pause`. */
  pauseSubscription(args: { id: T.SubscriptionID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Subscription> {
    return this.call('POST', '/v1/subscriptions/{id}/pause', args, ['Idempotency-Key'], options)
  }

  /** Probe a failing endpoint now: `POST /v1/subscriptions/{id}/probe`. */
  probeSubscription(args: { id: T.SubscriptionID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/probe', args, ['Idempotency-Key'], options)
  }

  /** Publish an event or a batch: `POST /v1/namespaces/{ns}/events`. */
  publishEvents(args: { ns: T.NamespaceName; body: T.CloudEvent | T.CloudEvent[] | T.ShortEvent | T.CloudEvent | (T.ShortEvent | T.CloudEvent)[] | T.Bytes; content_type?: string | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.PublishEventsResult | T.PublishEventsResult202> {
    return this.call('POST', '/v1/namespaces/{ns}/events', args, ['Content-Type', 'Idempotency-Key'], options)
  }

  /** Set the access list entries of a principal: `PUT /v1/namespaces/{ns}/acl/{principal}`. */
  putACL(args: { ns: T.NamespaceName; principal: T.Principal; body: T.ACLRequest }, options: Options = {}): Promise<T.ACL> {
    return this.call('PUT', '/v1/namespaces/{ns}/acl/{principal}', args, [], options)
  }

  /** Create or update an appointment: `PUT /v1/namespaces/{ns}/appointments/{id}`. */
  putAppointment(args: { ns: T.NamespaceName; id: string; body: T.AppointmentRequest; if_match?: string | undefined }, options: Options = {}): Promise<T.Appointment> {
    return this.call('PUT', '/v1/namespaces/{ns}/appointments/{id}', args, ['If-Match'], options)
  }

  /** Replace the token with which a mirror reads its source: `PUT /v1/subscriptions/{id}/credential`. */
  putCredential(args: { id: T.SubscriptionID; body: T.PutCredentialBody }, options: Options = {}): Promise<T.Mirror> {
    return this.call('PUT', '/v1/subscriptions/{id}/credential', args, [], options)
  }

  /** Configure the enrichment of a namespace: `PUT /v1/namespaces/{ns}/enrichment`. */
  putEnrichment(args: { ns: T.NamespaceName; body: T.EnrichmentRequest; if_match?: string | undefined }, options: Options = {}): Promise<T.Enrichment> {
    return this.call('PUT', '/v1/namespaces/{ns}/enrichment', args, ['If-Match'], options)
  }

  /** Create or update an event type: `PUT /v1/namespaces/{ns}/event-types/{type}`. */
  putEventType(args: { ns: T.NamespaceName; type: string; body?: T.EventTypeRequest | undefined; if_match?: string | undefined }, options: Options = {}): Promise<T.EventType> {
    return this.call('PUT', '/v1/namespaces/{ns}/event-types/{type}', args, ['If-Match'], options)
  }

  /** Create or update a namespace: `PUT /v1/namespaces/{ns}`. */
  putNamespace(args: { ns: T.NamespaceName; body?: T.NamespaceRequest | undefined; if_match?: string | undefined }, options: Options = {}): Promise<T.Namespace> {
    return this.call('PUT', '/v1/namespaces/{ns}', args, ['If-Match'], options)
  }

  /** Set the clearance of a principal: `PUT /v1/principals/{principal}`. */
  putPrincipal(args: { principal: T.Principal; body: T.PutPrincipalBody }, options: Options = {}): Promise<T.Profile> {
    return this.call('PUT', '/v1/principals/{principal}', args, [], options)
  }

  /** Create a stream subscription, or confirm an identical one: `PUT /streams/{ns}/__ds/subscriptions/{id}`. */
  putStreamSubscription(args: { ns: T.NamespaceName; id: string; body: T.DsubRequest }, options: Options = {}): Promise<T.Dsub> {
    return this.call('PUT', '/streams/{ns}/__ds/subscriptions/{id}', args, [], options)
  }

  /** Create a subscription under a client-chosen ID: `PUT /v1/subscriptions/{id}`. */
  putSubscription(args: { id: T.SubscriptionID; body: T.SubscriptionRequest | T.TargetRequest | T.MirrorRequest }, options: Options = {}): Promise<T.Subscription | T.SubscriptionWithSecret | T.Mirror> {
    return this.call('PUT', '/v1/subscriptions/{id}', args, [], options)
  }

  /** Have a namespace import the bundles of a source that a key signed: `PUT /v1/namespaces/{ns}/trusted-keys/{kid}`. */
  putTrustedKey(args: { ns: T.NamespaceName; kid: string; body: T.PutTrustedKeyBody }, options: Options = {}): Promise<T.TrustedKey> {
    return this.call('PUT', '/v1/namespaces/{ns}/trusted-keys/{kid}', args, [], options)
  }

  /** Create a watch, or replace the one with this ID: `PUT /v1/namespaces/{ns}/watches/{id}`. */
  putWatch(args: { ns: T.NamespaceName; id: T.SubscriptionID; body?: T.WatchRequest | undefined }, options: Options = {}): Promise<T.Watch> {
    return this.call('PUT', '/v1/namespaces/{ns}/watches/{id}', args, [], options)
  }

  /** Read a mirror as a Durable Stream: `GET /v1/namespaces/{ns}/items/stream`. */
  readMirrorStream(args: { ns: T.NamespaceName; subscription: string; offset?: string | undefined; live?: "long-poll" | "sse" | undefined; cursor?: string | undefined }, options: Options = {}): Promise<Response> {
    return this.whole('GET', '/v1/namespaces/{ns}/items/stream', args, [], options)
  }

  /** Read a stream from an offset: `GET /streams/{ns}/{path}`. */
  readStream(args: { ns: T.NamespaceName; path: string; subscription?: T.SubscriptionID | undefined; subscriptions?: string | undefined; offset?: string | undefined; live?: "long-poll" | "sse" | undefined; cursor?: string | undefined }, options: Options = {}): Promise<Response> {
    return this.whole('GET', '/streams/{ns}/{path}', args, [], options)
  }

  /** Check that the server can serve requests (NATS and JetStream respond, and the disk accepts writes): `GET /readyz`. */
  readyz(options: Options = {}): Promise<T.Readiness> {
    return this.call('GET', '/readyz', {}, [], options)
  }

  /** Redrive dead letters: `POST /v1/subscriptions/{id}/dead-letters/redrive`. */
  redriveDeadLetters(args: { id: T.SubscriptionID; body: T.RedriveRequest; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Redrive> {
    return this.call('POST', '/v1/subscriptions/{id}/dead-letters/redrive', args, ['Idempotency-Key'], options)
  }

  /** Release a wake: `POST /streams/{ns}/__ds/subscriptions/{id}/release`. */
  releaseWake(args: { ns: T.NamespaceName; id: string; body: T.DsubCall }, options: Options = {}): Promise<void> {
    return this.call('POST', '/streams/{ns}/__ds/subscriptions/{id}/release', args, [], options)
  }

  /** End the approval of a module, and its subscriptions with it: `DELETE /v1/modules/{module}`. */
  removeModule(args: { module: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/v1/modules/{module}', args, [], options)
  }

  /** Renew a grant: issue a new token and optionally a new expiry: `POST /v1/grants/{grant}/renew`. */
  renewGrant(args: { grant: T.GrantID; body?: T.RenewGrantBody | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Minted> {
    return this.call('POST', '/v1/grants/{grant}/renew', args, ['Idempotency-Key'], options)
  }

  /** Extend the lease of a claimed job: `POST /v1/namespaces/{ns}/jobs/{job}/renew`. */
  renewJob(args: { ns: T.NamespaceName; job: string; body: T.RenewJobBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Job> {
    return this.call('POST', '/v1/namespaces/{ns}/jobs/{job}/renew', args, ['Idempotency-Key'], options)
  }

  /** Resume a paused, disabled or suspended subscription: `POST /v1/subscriptions/{id}/resume`. */
  resumeSubscription(args: { id: T.SubscriptionID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.AnySubscription> {
    return this.call('POST', '/v1/subscriptions/{id}/resume', args, ['Idempotency-Key'], options)
  }

  /** Retry the delivery of an event: `POST /v1/subscriptions/{id}/deliveries/{event}/retry`. */
  retryDelivery(args: { id: T.SubscriptionID; event: string; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/deliveries/{event}/retry', args, ['Idempotency-Key'], options)
  }

  /** Have a failed job tried again: `POST /v1/namespaces/{ns}/jobs/{job}/retry`. */
  retryJob(args: { ns: T.NamespaceName; job: string; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Job> {
    return this.call('POST', '/v1/namespaces/{ns}/jobs/{job}/retry', args, ['Idempotency-Key'], options)
  }

  /** Retry all parked lanes now: `POST /v1/subscriptions/{id}/retry`. */
  retryLanes(args: { id: T.SubscriptionID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/retry', args, ['Idempotency-Key'], options)
  }

  /** Revoke a grant and all grants derived from it, permanently: `POST /v1/grants/{grant}/revoke`. */
  revokeGrant(args: { grant: T.GrantID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Grant> {
    return this.call('POST', '/v1/grants/{grant}/revoke', args, ['Idempotency-Key'], options)
  }

  /** Rotate the key of the signature schemes ed25519 and rfc9421: `POST /v1/keys/rotate`. */
  rotateKey(args: { body?: T.RotateKeyRequest | undefined; idempotency_key?: string | undefined } = {}, options: Options = {}): Promise<T.SigningKey> {
    return this.call('POST', '/v1/keys/rotate', args, ['Idempotency-Key'], options)
  }

  /** Rotate the secret of a subscription: `POST /v1/subscriptions/{id}/secret/rotate`. */
  rotateSecret(args: { id: T.SubscriptionID; body?: T.RotateSecretBody | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.SubscriptionWithSecret> {
    return this.call('POST', '/v1/subscriptions/{id}/secret/rotate', args, ['Idempotency-Key'], options)
  }

  /** Find the entries with the most similar embeddings: `POST /v1/namespaces/{ns}/search`. */
  search(args: { ns: T.NamespaceName; body: T.SearchBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.SearchResult> {
    return this.call('POST', '/v1/namespaces/{ns}/search', args, ['Idempotency-Key'], options)
  }

  /** Move a subscription to another position in the log: `POST /v1/subscriptions/{id}/seek`. */
  seekSubscription(args: { id: T.SubscriptionID; body: T.SeekSubscriptionBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Subscription> {
    return this.call('POST', '/v1/subscriptions/{id}/seek', args, ['Idempotency-Key'], options)
  }

  /** Replay past events: `POST /v1/subscriptions/{id}/replay`. */
  startReplay(args: { id: T.SubscriptionID; body?: T.StartReplayBody | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.StartReplayResult | T.Replay> {
    return this.call('POST', '/v1/subscriptions/{id}/replay', args, ['Idempotency-Key'], options)
  }

  /** Get the keys that sign notices: `GET /streams/{ns}/__ds/jwks.json`. */
  streamKeys(args: { ns: T.NamespaceName }, options: Options = {}): Promise<Record<string, unknown>> {
    return this.call('GET', '/streams/{ns}/__ds/jwks.json', args, [], options)
  }

  /** Suspend a mirror; its entries stay readable: `POST /v1/subscriptions/{id}/suspend`. */
  suspendMirror(args: { id: T.SubscriptionID; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Mirror> {
    return this.call('POST', '/v1/subscriptions/{id}/suspend', args, ['Idempotency-Key'], options)
  }

  /** Sync a mirror now: `POST /v1/subscriptions/{id}/sync`. */
  syncMirror(args: { id: T.SubscriptionID; wait?: T.Duration | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.MirrorStatus | void> {
    return this.call('POST', '/v1/subscriptions/{id}/sync', args, ['Idempotency-Key'], options)
  }

  /** Send a signed test event to the endpoint: `POST /v1/subscriptions/{id}/test`. */
  testSubscription(args: { id: T.SubscriptionID; body?: T.TestSubscriptionBody | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Attempt> {
    return this.call('POST', '/v1/subscriptions/{id}/test', args, ['Idempotency-Key'], options)
  }

  /** Simulate a watch over past events: `POST /v1/namespaces/{ns}/watches/test`. */
  testWatch(args: { ns: T.NamespaceName; body?: T.WatchTrialRequest | undefined; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.WatchTrial> {
    return this.call('POST', '/v1/namespaces/{ns}/watches/test', args, ['Idempotency-Key'], options)
  }

  /** Unlink a stream: `DELETE /streams/{ns}/__ds/subscriptions/{id}/streams/{path}`. */
  unlinkStream(args: { ns: T.NamespaceName; id: string; path: string }, options: Options = {}): Promise<void> {
    return this.call('DELETE', '/streams/{ns}/__ds/subscriptions/{id}/streams/{path}', args, [], options)
  }

  /** Verify everything that is stored: `POST /v1/storage/verify`. */
  verifyStorage(args: { idempotency_key?: string | undefined } = {}, options: Options = {}): Promise<T.StorageVerification> {
    return this.call('POST', '/v1/storage/verify', args, ['Idempotency-Key'], options)
  }

  /** Verify a token or a grant, and its permissions: `POST /v1/grants/verify`. */
  verifyToken(args: { body: T.VerifyTokenBody; idempotency_key?: string | undefined }, options: Options = {}): Promise<T.Verification> {
    return this.call('POST', '/v1/grants/verify', args, ['Idempotency-Key'], options)
  }

  /** Get the caller and its grant: `GET /v1/whoami`. */
  whoami(args: { wait?: T.Duration | undefined } = {}, options: Options = {}): Promise<T.WhoamiResult> {
    return this.call('GET', '/v1/whoami', args, [], options)
  }
}
