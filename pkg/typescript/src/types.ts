// Generated from the OpenAPI document by `make clients`. Do not edit.

/** A body that is sent as it is. */
export type Bytes = string | Uint8Array<ArrayBuffer>

export interface ACL {
  entries: Access[]
  namespace: NamespaceName
  /** Pattern of the only entry; absent if there are several. */ pattern?: string | undefined
  principal: Principal
  /** Tier of the only entry; absent if there are several. */ tier?: Tier | undefined
}

/** One entry, or several. */
export interface ACLRequest {
  /** Several entries, instead of tier and pattern. */ entries?: Access[] | undefined
  pattern?: string | undefined
  tier?: Tier | undefined
}

/** One entry of an access list. */
export interface Access {
  /** Includes system paths if the tier is admin and the pattern is /**. */ pattern?: string | undefined
  tier: Tier
}

export interface AckWakeResult {
  /** More work is pending; another wake has started. */ next_wake: boolean
  ok: boolean
}

/** The action to perform: publish an event in the namespace. */
export interface Action {
  /** At most 64 KiB of JSON; for another content type, its text as a string. */ data?: unknown | undefined
  datacontenttype?: string | undefined
  dataschema?: string | undefined
  /** Additional CloudEvents attributes. */ extensions?: Record<string, string> | undefined
  path: Path
  source?: string | undefined
  subject?: string | undefined
  type: string
}

/** The endpoint's response to the handshake. */
export interface Agreement {
  at: string
  /** Allowed requests per minute; absent if unlimited. */ rate_per_minute?: number | undefined
}

/** Any subscription; those of the mode `mirror` have members of their own. */
export type AnySubscription = Subscription | Mirror

export interface Appointment {
  action: Action
  /** When it fires; for a recurring appointment, the next time. */ at: string
  created_at: string
  created_by: string
  cron?: string | undefined
  every?: string | undefined
  grace: string
  grant?: string | undefined
  id: string
  last?: AppointmentEnd | undefined
  miss_policy: "drop" | "catch_up_within" | "catch_up"
  namespace: NamespaceName
  notice: string
  /** Whether appointment.approaching has been published. */ noticed: boolean
  revision: number
  /** A fired or missed appointment is shown for a day. */ state: "waiting" | "firing" | "fired" | "missed"
  time_zone?: string | undefined
}

/** How the appointment ended; for a recurring one, the last firing. */
export interface AppointmentEnd {
  at: string
  /** ok, or an error code. */ dispatch_outcome?: string | undefined
  event_id?: string | undefined
  reason?: "miss_policy" | "grace_exceeded" | "clock_untrusted" | undefined
  scheduled_for: string
  seq?: number | undefined
  state: "fired" | "missed"
}

export interface AppointmentRequest {
  action: Action
  /** When the appointment fires; required unless `cron` is set. */ at?: string | undefined
  /** Recurring schedule: minute, hour, day of the month, month and day of the week. */ cron?: string | undefined
  /** Interval after which it fires again, at least 1s; without it, it fires once. */ every?: string | undefined
  /** With catch_up_within: the maximum delay at which it still fires. */ grace?: string | undefined
  /** How to handle an appointment if no server runs at its time or within ten seconds after it. */ miss_policy?: "drop" | "catch_up_within" | "catch_up" | undefined
  /** How long in advance `appointment.approaching` is published, at most 720h. */ notice?: string | undefined
  /** IANA time zone of `cron`. */ time_zone?: string | undefined
}

export interface ApproveModuleBody {
  /** Of the files that were checked, such as `sha256:…`. */ digest: string
}

export interface Attempt {
  /** All events of the request in order, if there are several: the fields above are the first one's. */ batch?: AttemptBatchItem[] | undefined
  /** Of a failed attempt. */ class?: FailureClass | undefined
  duration: Duration
  error?: string | undefined
  event_id: string
  number: number
  outcome: "delivered" | "failed" | "gone" | "refused"
  /** The first 64 KiB of what the program of a module wrote, with the values of its variables masked. */ output?: string | undefined
  path: string
  /** SHA-256 of the request body, hex-encoded. */ payload_hash?: string | undefined
  /** The attempt failed while the endpoint was down and does not count: the next attempt has the same number. */ probe?: boolean | undefined
  /** Events that the program of a module printed and that were published. */ published?: number | undefined
  /** The replay that the attempt belongs to; attempt numbers start over within it. */ replay?: string | undefined
  /** The first KiB of the response to a failed attempt, with secrets masked. */ response?: string | undefined
  seq: number
  started_at: string
  status?: number | undefined
  subscription: string
  /** With a debounce: the first sequence of the earlier events on the path in whose place the event was sent. */ supersedes_from?: number | undefined
  type: string
  verdict?: Verdict | undefined
}

export interface AttemptBatchItem {
  event_id: string
  path: string
  seq: number
  type: string
}

export interface BatchResult {
  error?: ErrorDescription | undefined
  /** ID of the subscription; in a dry run only if it is known. */ id?: string | undefined
  /** Position of the item, from 0. */ index: number
  /** Only of a subscription that was just created. */ secret?: string | undefined
  status: "created" | "exists" | "error"
}

/** Template of the body, for the envelope `template`. */
export interface Body {
  /** A CEL expression over `event`. */ cel?: string | undefined
  /** application/json, another type that ends in +json, or text/plain. */ content_type?: string | undefined
  /** The text that `cel` yields becomes a message of an incoming webhook, escaped: it mentions no one and has no disguised links. */ preset?: "slack" | "discord" | undefined
}

/** The changes of a namespace in a range of sequences, signed with Ed25519 over the canonical form (RFC 8785) of all members but `signature`. */
export interface Bundle {
  alg: "Ed25519"
  count: number
  entries: (Record<string, unknown>)[]
  entries_sha256: string
  exported_at: string
  /** The first stored sequence. */ first_sequence: number
  format: "sluice.bundle/1"
  /** There is no entry. */ heartbeat: boolean
  /** The log that the sequences belong to. */ incarnation: string
  kid: string
  label: Label
  /** Ranges that are lost to damage. */ lost: (Record<string, unknown>)[]
  /** Logs of which the namespace has content in mirrors. */ passed: Hop[]
  /** Digest of the bundle before this one. */ previous: string
  scope: "catalog" | "claims" | "entries"
  /** In base64. */ signature: string
  /** The range begins behind it. */ since_sequence: number
  /** The URL of the namespace. */ source_notebook_id: string
  source_notebook_name: string
  /** The last sequence of the range. */ through_sequence: number
}

export interface BundleArrival {
  /** Names of files to be sent. */ missing: string[]
  missing_bytes: number
}

export interface BundleImport {
  /** Entries that were new to the mirror. */ applied: number
  /** A signed statement of the importer, for the source: the digest in `bundle` is the `previous` of the next export. */ receipt?: Record<string, unknown> | undefined
  /** The last sequence of the source that is mirrored. */ watermark: number
}

/** An Ed25519 public key as a JWK (RFC 8037). */
export interface BundleKey {
  alg?: "Ed25519" | "EdDSA" | undefined
  crv: "Ed25519"
  /** The thumbprint of the key (RFC 7638). */ kid?: string | undefined
  kty: "OKP"
  use?: "sig" | undefined
  /** The key in base64url. */ x: string
}

export interface CallbackWakeResult {
  /** More work is pending; another wake has started. */ next_wake: boolean
  ok: boolean
}

export interface Capabilities {
  /** For each event type in a catalogue, the names of its static labels, which every event of the type has. */ coalesce_labels: Record<string, string[]>
  features: Record<string, true>
  limits: Record<string, number>
  /** How events are published over NATS. */ nats: CapabilitiesNats
  version: string
  wire_version: string
}

/** How events are published over NATS. */
export interface CapabilitiesNats {
  /** Prefix of all streams, buckets and subjects; empty: none. */ prefix: string
  /** Beginning of the subjects of events, which a namespace and a path follow, such as events. */ subject: string
}

/** How the event types of the namespace are used. */
export type Catalogue = "open" | "strict"

/** A deletion has `op`, `seq`, `id`, `erased_seq` and, if a revision was erased, `revision_of`. */
export interface Change {
  /** JSON data byte for byte, or text as a string. */ data?: unknown | undefined
  /** White space of the event's data behind the JSON in `data`. */ data_after?: string | undefined
  /** All other data, and JSON that is no UTF-8 or nested deeper than 900 levels. */ data_base64?: string | undefined
  /** White space of the event's data before the JSON in `data`. */ data_before?: string | undefined
  datacontenttype?: string | undefined
  dataschema?: string | undefined
  /** Of a deletion: the sequence that the erased event had. */ erased_seq?: number | undefined
  extensions?: Record<string, string> | undefined
  /** ID of the event. */ id: string
  /** An event; an event that replaces `revision_of`; the erasing of an event. */ op: "write" | "revise" | "delete"
  path?: Path | undefined
  /** ID of the event that this one, or the erased one, replaces. */ revision_of?: string | undefined
  /** Sequence of the change; of a deletion, where it lies in the log. */ seq: number
  source?: string | undefined
  subject?: string | undefined
  time?: string | undefined
  type?: string | undefined
}

export interface ClaimJobsBody {
  /** Number of jobs. */ max?: number | undefined
  /** Only these; default: all. */ types?: JobType[] | undefined
  /** How long to wait for the first job, up to 30s; default: not at all. */ wait?: Duration | undefined
  /** Name of the worker. */ worker: string
}

export interface ClaimJobsResult {
  jobs: ClaimedJob[]
}

export interface ClaimWakeBody {
  worker: string
}

export interface ClaimWakeResult {
  generation: number
  lease_ttl_ms: number
  streams: DsubStream[]
  /** For ack and release. */ token: string
  wake_id: string
}

export interface ClaimedJob {
  /** Of a comparison: the neighbour. */ against?: EntryRef | undefined
  /** Of a comparison: the neighbour. */ against_item?: Item | undefined
  /** Claims for the present content of the entry. */ attempts: number
  /** The neighbour is a mirrored entry. */ cross_boundary?: boolean | undefined
  /** The weight of the mirror; 1 for an entry of the namespace. */ discount_factor?: number | undefined
  entry: EntryRef
  /** Of the last attempt. */ error?: string | undefined
  /** Number of claims. */ generation?: number | undefined
  id: string
  item: Item
  /** Time until the lease ends. */ lease_ttl_ms: number
  lease_until?: string | undefined
  model: string
  namespace: NamespaceName
  /** When the next attempt may begin. */ not_before?: string | undefined
  priority: number
  state: JobState
  /** Proves the claim. */ token: string
  type: JobType
  worker?: string | undefined
}

/** A CloudEvents 1.0 event. */
export interface CloudEvent {
  /** The principal that published the event. */ authid?: string | undefined
  authtype?: "user" | "ai_agent" | "service_account" | "system" | "unknown" | undefined
  /** ID of the event in the same namespace that caused this one. */ causationid?: string | undefined
  /** Common ID of all events of one workflow. */ correlationid?: string | undefined
  /** JSON, or the text of another content type. */ data?: unknown | undefined
  data_base64?: string | undefined
  datacontenttype?: string | undefined
  dataschema?: string | undefined
  id: string
  namespace?: string | undefined
  path?: Path | undefined
  /** Sequence in the namespace's log; 20 digits. */ sequence?: string | undefined
  source: string
  specversion: "1.0"
  subject?: string | undefined
  time?: string | undefined
  type: string
  [name: string]: unknown
}

export interface Comparison {
  against: EntryRef
  compared_at: string
  /** As the worker sent it. */ comparison: Record<string, unknown>
  discount_factor: number
  /** Friction times discount. */ effective_friction: number
  similarity: number
  /** It is about an earlier content of the entry. */ superseded?: boolean | undefined
}

export interface CompleteJobBody {
  /** Of a comparison. */ comparison?: CompleteJobBodyComparison | undefined
  /** Of an embedding job. */ embedding?: number[] | undefined
  /** That of the claim. */ token: string
}

/** Of a comparison. */
export interface CompleteJobBodyComparison {
  friction: number
}

export interface CreatePortalSessionBody {
  /** From the fragment of the link's URL. */ code: string
}

export interface CreateSubscriptionsResult {
  created: number
  exists: number
  failed: number
  results: BatchResult[]
}

export interface Damage {
  found_at: string
  /** First sequence. */ from?: number | undefined
  /** Key of the record, for a stream that backs a bucket. */ key?: string | undefined
  kind: "shorter" | "fewer" | "missing" | "unreadable" | "stale" | "lost"
  /** Number of affected messages, if not all from `from` to `to`. */ messages?: number | undefined
  /** Namespace of the log. */ namespace?: string | undefined
  /** Path of the events that cannot be read, if they share one and NATS still knows it. */ path?: string | undefined
  stream: string
  /** Last sequence. */ to?: number | undefined
}

export interface DeadLetter {
  /** When the delivery failed for good. */ at: string
  attempts: number
  /** Only for a single dead letter; not in lists. */ event?: CloudEvent | undefined
  /** Empty if the event was never read. */ event_id: string
  first_failed_at?: string | undefined
  /** Only for a single dead letter, oldest first; not in lists. */ history?: Attempt[] | undefined
  last_error?: string | undefined
  /** With the reasons expired and unreadable: the end of the lost range. */ last_seq?: number | undefined
  /** Status of the last response; absent if there was none. */ last_status?: number | undefined
  namespace: string
  path: string
  reason: Reason
  /** Whether the event is known and can be redriven. */ redrivable: boolean
  /** The replay in which the delivery failed again. */ replay?: string | undefined
  seq: number
  subscription: string
}

export interface Delivery {
  attempt_count: number
  /** Only for a single delivery; not in lists. */ attempts?: Attempt[] | undefined
  /** Number of events in its request, if there were several. */ batch?: number | undefined
  /** The event that this one waits for. */ behind?: DeliveryBehind | undefined
  event_id: string
  /** Only for a single delivery; not in lists. */ explanation?: string | undefined
  last_attempt_at?: string | undefined
  last_error?: string | undefined
  /** Last sequence, for a range of events that was lost together. */ last_seq?: number | undefined
  last_status?: number | undefined
  next_attempt_at?: string | undefined
  path: string
  /** Why the delivery is dead or held. */ reason?: string | undefined
  seq: number
  state: DeliveryState
  type: string
}

/** The event that this one waits for. */
export interface DeliveryBehind {
  attempts: number
  event_id?: string | undefined
  /** Why that event holds its lane. */ held?: Reason | undefined
  last_error?: string | undefined
  /** Absent if that event is held. */ next_attempt_at?: string | undefined
  seq: number
}

/** Lists show the first four states. */
export type DeliveryState = "delivered" | "retrying" | "held" | "dead" | "waiting" | "backlog" | "in_flight" | "not_wanted" | "ended" | "not_kept" | "superseded" | "not_recorded"

export interface Dsub {
  created_at: string
  description?: string | undefined
  id: string
  lease_ttl_ms: number
  pattern: string | null
  /** failed: the last wake attempt failed, and another is due. */ status: "active" | "failed"
  streams: DsubStreamsItem[]
  subscription_id: string
  type: "webhook" | "pull-wake"
  wake_stream: string | null
  webhook?: DsubWebhook | undefined
}

export interface DsubCall {
  acks?: DsubCallAcksItem[] | undefined
  done?: boolean | undefined
  generation: number
  wake_id: string
}

export interface DsubCallAcksItem {
  /** The last acknowledged offset. */ offset: string
  /** Alias of stream. */ path?: string | undefined
  stream?: string | undefined
}

export interface DsubRequest {
  description?: string | undefined
  lease_ttl_ms?: number | undefined
  /** * matches one segment, ** any number of segments. */ pattern?: string | undefined
  /** In addition to the pattern; at least one of the two is required. */ streams?: string[] | undefined
  type: "webhook" | "pull-wake"
  /** Required for pull-wake. */ wake_stream?: string | undefined
  webhook?: DsubRequestWebhook | undefined
}

export interface DsubRequestWebhook {
  /** As an endpoint's. */ handshake?: boolean | undefined
  /** Required for a webhook. */ url?: string | undefined
}

export interface DsubStream {
  acked_offset: string
  has_pending: boolean
  link_type: "glob" | "explicit"
  path: string
  tail_offset: string
}

export interface DsubStreamsItem {
  /** The last acknowledged offset. */ acked_offset: string
  link_type: "glob" | "explicit"
  path: string
}

export interface DsubWebhook {
  agreed?: Agreement | undefined
  /** Absent for false. */ handshake?: boolean | undefined
  signing?: DsubWebhookSigning | undefined
  url?: string | undefined
}

export interface DsubWebhookSigning {
  alg?: string | undefined
  jwks_url?: string | undefined
  /** The current signing key. */ kid?: string | undefined
}

/** A Go duration. */
export type Duration = string

export interface Endpoint {
  auth?: EndpointAuth | undefined
  /** In place of the URL: a program of the subscription's module, and its arguments. */ exec?: string[] | undefined
  /** Require a handshake before the first delivery: OPTIONS with WebHook-Request-Origin, which the endpoint answers with WebHook-Allowed-Origin (CloudEvents, abuse protection), in every mode. */ handshake?: boolean | undefined
  headers?: Record<string, string> | undefined
  /** Generated by default. */ secret?: string | undefined
  tls?: EndpointTLS | undefined
  /** Required in requests. */ url?: string | undefined
}

/** Requests have a bearer token in `Authorization`, which the client credentials grant of OAuth 2 returns. */
export interface EndpointAuth {
  /** Parameter `audience` of the token request. */ audience?: string | undefined
  client_id: string
  /** Required on creation; never returned. */ client_secret?: string | undefined
  scopes?: string[] | undefined
  /** Token endpoint. */ token_url: string
  type: "oauth2"
}

/** Client certificate, and authorities in place of the system's. */
export interface EndpointTLS {
  /** PEM: the only authorities that the endpoint's certificate is verified with. */ ca?: string | undefined
  /** PEM: the client certificate, followed by intermediate ones. */ certificate?: string | undefined
  /** End of the client certificate. */ not_after?: string | undefined
  /** PEM, without a passphrase. */ private_key?: string | undefined
}

export interface Enrichment {
  dimensions: number
  lease: Duration
  max_attempts: number
  model: string
  namespace: NamespaceName
  pattern: string
  review_above: number
  revision: number
  top_k: number
  updated_at: string
  updated_by: string
}

export interface EnrichmentRequest {
  /** Elements of an embedding. */ dimensions: number
  /** How long a worker has a job until it renews or reports, 1s to 10m; default: 30s. */ lease?: Duration | undefined
  /** Attempts until a job has failed. */ max_attempts?: number | undefined
  /** The embedding model. */ model: string
  /** Paths of the events of the namespace that are entries. */ pattern?: string | undefined
  /** An entry with a greater effective friction needs a review. */ review_above?: number | undefined
  /** Neighbours that an entry of the namespace is compared with. */ top_k?: number | undefined
}

/** The entries of a namespace in the memory of the answering replica. */
export interface EnrichmentStatus {
  /** Of these, with an embedding of the present model and content. */ embedded: number
  /** Entries in memory. */ entries: number
  /** Approximate memory of the enrichment. */ memory_bytes: number
  /** Entries without room: they get no jobs and are not found. */ not_held: number
  /** There may be more of them. */ not_held_more?: boolean | undefined
  /** Why results are incomplete, and the remedy. */ problem?: string | undefined
}

export interface EntombBody {
  path: Path
}

export interface EntryRef {
  id: string
  source: "local" | "mirrored"
  /** The mirror. */ subscription_id?: string | undefined
}

export type ErrorCode = "invalid_request" | "unauthenticated" | "forbidden" | "capability_required" | "not_found" | "subscription_not_found" | "method_not_allowed" | "unsupported_media_type" | "conflict" | "subscription_conflict" | "subscription_exists" | "mirror_cycle" | "mirror_suspended" | "event_loop_detected" | "replay_window_exceeded" | "gone" | "revision_mismatch" | "too_large" | "insecure_url" | "blocked_address" | "unknown_filter" | "ambiguous_subscription" | "secret_too_short" | "wake_not_supported" | "unknown_event_type" | "invalid_event_data" | "unprocessable" | "quota_exceeded" | "unavailable" | "internal" | "unknown_key" | "no_matching_subscription" | "bundle_signature_invalid" | "bundle_imported" | "bundle_gap" | "bundle_fork" | "origin_replaced" | "token_invalid" | "token_expired" | "fenced"

export interface ErrorDescription {
  code: ErrorCode
  details: Record<string, unknown>
  /** The error and its remedy. */ message: string
}

export interface EventDeliveries {
  /** Nearest first, as far as they are stored and the caller may see them. */ causes: StoryEvent[]
  /** Whether all later events were searched for consequences. */ complete: boolean
  /** Later events that name this one, or one of those, as their cause; at most 100. */ consequences: StoryEvent[]
  deliveries: EventDelivery[]
  event: StoryEvent
  next_cursor: string
}

/** A delivery, with its attempts by run. */
export interface EventDelivery {
  attempt_count: number
  /** Only for a single delivery; not in lists. */ attempts?: Attempt[] | undefined
  /** Number of events in its request, if there were several. */ batch?: number | undefined
  /** The event that this one waits for. */ behind?: EventDeliveryBehind | undefined
  event_id: string
  /** Only for a single delivery; not in lists. */ explanation?: string | undefined
  last_attempt_at?: string | undefined
  last_error?: string | undefined
  /** Last sequence, for a range of events that was lost together. */ last_seq?: number | undefined
  last_status?: number | undefined
  next_attempt_at?: string | undefined
  path: string
  /** Why the delivery is dead or held. */ reason?: string | undefined
  /** The attempts of the original delivery, then of each replay; oldest first. */ runs: EventDeliveryRunsItem[]
  seq: number
  state: DeliveryState
  subscription: string
  type: string
}

/** The event that this one waits for. */
export interface EventDeliveryBehind {
  attempts: number
  event_id?: string | undefined
  /** Why that event holds its lane. */ held?: Reason | undefined
  last_error?: string | undefined
  /** Absent if that event is held. */ next_attempt_at?: string | undefined
  seq: number
}

export interface EventDeliveryRunsItem {
  attempts: Attempt[]
  kind: "original" | "replay" | "redrive"
  /** ID of the replay. */ replay?: string | undefined
}

export interface EventType {
  created_at: string
  description?: string | undefined
  namespace: NamespaceName
  revision: number
  schema?: unknown | undefined
  static_labels?: Record<string, string> | undefined
  summary_fields?: string[] | undefined
  type: string
  updated_at: string
}

export interface EventTypeRequest {
  description?: string | undefined
  /** JSON Schema 2020-12 of the data, at most 65536 bytes; without a schema, any data is accepted. */ schema?: unknown | undefined
  /** Labels that every event of the type has in `filter.labels`; the event's own labels take precedence. */ static_labels?: Record<string, string> | undefined
  /** Names of top-level members of the data that the projection `summary` sends. */ summary_fields?: string[] | undefined
}

export interface FailJobBody {
  /** The reason; 1 KiB of it is kept. */ error?: string | undefined
  /** No other attempt can succeed. */ final?: boolean | undefined
  /** That of the claim. */ token: string
}

/** Kind of failure of an attempt. */
export type FailureClass = "timeout" | "connection" | "refused" | "dns" | "tls" | "http_3xx" | "http_4xx" | "http_auth" | "http_429" | "http_5xx" | "credential" | "not_sent" | "program" | "other"

/** Number of failed attempts by class; classes without any are left out. */
export type FailureCounts = Record<string, number>

/** One frame of a feed. */
export type FeedFrame = FeedFrameSubscribed | FeedFrameSeq | FeedFrameLagged | FeedFrameHeartbeat | FeedFrameError

/** The last frame. */
export interface FeedFrameError {
  error: FeedFrameErrorError
}

export interface FeedFrameErrorError {
  code: ErrorCode
  details: Record<string, unknown>
  message: string
}

/** A keep-alive in the absence of events (WebSocket; server-sent events use a comment). */
export interface FeedFrameHeartbeat {
  heartbeat: FeedFrameHeartbeatHeartbeat
}

export interface FeedFrameHeartbeatHeartbeat {
  /** Sequence to resume after. */ seq?: number | undefined
}

/** The number of frames that the reader missed. */
export interface FeedFrameLagged {
  lagged: Lagged
}

/** An event. */
export interface FeedFrameSeq {
  /** Number of events that the frame stands for, if more than one. */ coalesced?: number | undefined
  event: CloudEvent
  /** Sequence to resume after, if it differs from seq. */ resume?: number | undefined
  /** The highest sequence that the frame stands for. */ seq: number
}

/** The first frame. */
export interface FeedFrameSubscribed {
  /** Sequence of the last event when the feed started: the events read up to here and the feed from here on are complete. */ current_seq: number
  /** ID of the log. */ incarnation: string
  subscribed: true
}

export interface FeedTicket {
  /** No later than the expiry of the grant. */ expires_at: string
  ticket: string
  /** URL of a feed, including the ticket. */ url: string
}

export interface FeedTicketRequest {
  /** Validity of the ticket: 1s to 1h. */ ttl?: Duration | undefined
}

/** All set dimensions must match; within one dimension, any value matches. */
export interface Filter {
  /** A CEL expression over `event` that yields a bool. */ cel?: string | undefined
  labels?: Record<string, string[]> | undefined
  sources?: string[] | undefined
  subjects?: string[] | undefined
  /** Exact type, or a prefix followed by .* */ types?: string[] | undefined
}

/** A range of a log in which events may be lost, because its files are damaged. */
export interface Gap {
  /** First sequence. */ from: number
  /** Last sequence. */ to: number
}

export interface GetComparisonsResult {
  comparisons: Comparison[]
  completed_comparisons: number
  entry: string
  /** Neighbours at the time of the embedding, mirrored ones included. */ expected_comparisons: number
  /** Label of the namespace. */ label?: Label | undefined
  /** The greatest effective friction of the present content. */ max_friction: number | null
  needs_review: boolean
  path: Path
  updated_at?: string | undefined
}

export interface GetEnrichmentResult {
  dimensions: number
  lease: Duration
  max_attempts: number
  model: string
  namespace: NamespaceName
  pattern: string
  review_above: number
  revision: number
  /** Null while the entries are being read. */ status: EnrichmentStatus | null
  top_k: number
  updated_at: string
  updated_by: string
}

export interface GetKeysResult {
  keys: (Record<string, unknown>)[]
}

export interface Grant {
  description?: string | undefined
  expires_at: string
  id: GrantID
  issued_at: string
  issued_by: Principal
  object: Object
  on_behalf_of?: Principal | undefined
  /** The grant that this one derives from and ends with; absent if root issued it. */ parent?: GrantID | undefined
  principal: Principal
  revision: number
  revoked_at?: string | undefined
  revoked_by?: Principal | undefined
  /** A session of the portal. */ session?: boolean | undefined
  verbs: Verb[]
}

export type GrantID = string

export interface GrantRequest {
  description?: string | undefined
  /** At most 90 days ahead. */ expires_at: string
  object: Object
  /** Principal whose access lists and clearance also apply. */ on_behalf_of?: Principal | undefined
  principal: Principal
  verbs: Verb[]
}

/** Condition of a subscription, worst first. */
export type Health = "failing" | "disabled" | "suspended" | "held" | "retrying" | "behind" | "dead_letters" | "paused" | "ok" | "cancelled"

/** A scheduled event. */
export interface Held {
  deliver_at: string
  /** An event with this ID is already scheduled; deliver_at is its time. */ duplicate: boolean
  id: string
  path: Path
}

export interface Hop {
  /** Mirrors between that log and this one, from 1. */ hops: number
  incarnation: string
}

/** An entry of a namespace, its own or a mirrored one. */
export interface Item {
  /** Place of the last change in the mirror. */ cursor?: number | undefined
  /** JSON data byte for byte, or text as a string. */ data?: unknown | undefined
  /** White space of the event's data behind the JSON in `data`. */ data_after?: string | undefined
  /** All other data, and JSON that is no UTF-8 or nested deeper than 900 levels. */ data_base64?: string | undefined
  /** White space of the event's data before the JSON in `data`. */ data_before?: string | undefined
  datacontenttype?: string | undefined
  dataschema?: string | undefined
  /** The source attribute of the event. */ event_source?: string | undefined
  extensions?: Record<string, string> | undefined
  id: string
  /** Label of the namespace that has the copy. */ label?: Label | undefined
  mirrored_at?: string | undefined
  op: "write" | "revise"
  /** The source of the mirror. */ origin?: string | undefined
  path?: Path | undefined
  revision_of?: string | undefined
  /** Sequence in the log of the source. */ seq: number
  source: "local" | "mirrored"
  subject?: string | undefined
  /** The mirror. */ subscription_id?: string | undefined
  time?: string | undefined
  /** The source has deleted the entry. */ tombstoned: boolean
  type?: string | undefined
  weight?: number | undefined
}

export interface Job {
  /** Of a comparison: the neighbour. */ against?: EntryRef | undefined
  /** Claims for the present content of the entry. */ attempts: number
  /** The neighbour is a mirrored entry. */ cross_boundary?: boolean | undefined
  /** The weight of the mirror; 1 for an entry of the namespace. */ discount_factor?: number | undefined
  entry: EntryRef
  /** Of the last attempt. */ error?: string | undefined
  /** Number of claims. */ generation?: number | undefined
  id: string
  lease_until?: string | undefined
  model: string
  namespace: NamespaceName
  /** When the next attempt may begin. */ not_before?: string | undefined
  priority: number
  state: JobState
  type: JobType
  worker?: string | undefined
}

export type JobState = "pending" | "claimed" | "failed"

export type JobType = "embed" | "embed_mirrored" | "compare"

/** Sensitivity of a resource and the compartments it belongs to; for a principal, its clearance. */
export interface Label {
  compartments?: string[] | undefined
  level?: Level | undefined
}

export interface Lagged {
  /** Sequence of the last event. */ current_seq: number
  /** Number of frames that were dropped between the previous and the next frame. */ missed_count: number
  /** Sequence of the next frame. */ oldest_available_seq: number
  /** The missed events are lost, because the files of the log are damaged. */ unreadable?: Gap | undefined
}

export interface LedgerEntry {
  action: string
  /** The principal that made the change, or system for the server itself. */ actor: string
  at: string
  /** Error of the failed change. */ error?: ErrorCode | undefined
  /** ID of the grant under which the change was made; absent for root and system. */ grant?: string | undefined
  id: string
  /** ID of the entry whose change failed. */ intent?: string | undefined
  namespace?: NamespaceName | undefined
  /** New values of the same fields; absent on deletion. */ new?: Record<string, unknown> | undefined
  /** Previous values of the changed fields, secrets masked; absent on creation. */ old?: Record<string, unknown> | undefined
  outcome: "done" | "failed"
  request_id?: string | undefined
  /** ID or name of the changed resource; the action implies its kind. */ resource: string
  /** Sequence of the entry in the ledger. */ seq: number
}

export type Level = "PUBLIC" | "INTERNAL" | "CONFIDENTIAL" | "SECRET" | "TOP_SECRET"

export interface Link {
  id: string
  path: Path
  type: string
}

export interface LinkStreamsBody {
  streams: string[]
}

export interface ListACLResult {
  acl: ACL[]
}

export interface ListAppointmentsResult {
  appointments: Appointment[]
  next_cursor: string
}

export interface ListAttemptsResult {
  attempts: Attempt[]
  next_after: string
}

export interface ListAuditResult {
  entries: LedgerEntry[]
  next_cursor: string
}

export interface ListBundleKeysResult {
  keys: BundleKey[]
}

export interface ListConsumersResult {
  consumers: WakeConsumer[]
  counts: WakeCounts
  next_cursor: string
}

export interface ListDeadLettersResult {
  dead_letters: DeadLetter[]
  next_cursor: string
  /** Total for the subscription, ignoring the filters of this request. */ total: number
}

export interface ListDeliveriesResult {
  deliveries: Delivery[]
  next_cursor: string
}

export interface ListEventTypesResult {
  event_types: EventType[]
  next_cursor: string
}

export interface ListEventsResult {
  events: CloudEvent[]
  next_cursor: string
  /** Ranges of this page in which events may be lost, because the files of the log are damaged. */ unreadable?: Gap[] | undefined
}

export interface ListGrantsResult {
  grants: Grant[]
  next_cursor: string
}

export interface ListHealthResult {
  /** Number of subscriptions that the caller manages, of the namespace if there is one, by condition. */ counts: Record<string, number>
  next_cursor: string
  subscriptions: SubscriptionHealth[]
}

export interface ListItemsResult {
  items: Item[]
  /** Empty on the last page. */ next_cursor: string
}

export interface ListJobsResult {
  jobs: Job[]
  /** Empty on the last page. */ next_cursor: string
}

export interface ListKeysResult {
  keys: SigningKey[]
  next_cursor: string
}

export interface ListModulesResult {
  /** Absent if the server has no directories of modules. */ host?: ModuleHost | undefined
  modules: Module[]
}

export interface ListNamespaceSubscriptionsResult {
  next_cursor: string
  subscriptions: (Subscription | ListedMirror)[]
}

export interface ListNamespacesResult {
  namespaces: Namespace[]
  next_cursor: string
}

export interface ListPrincipalsResult {
  principals: Profile[]
}

export interface ListProblemsResult {
  /** Number of problems by state, of all states. */ counts: Record<string, number>
  next_cursor: string
  problems: Problem[]
}

export interface ListReplaysResult {
  next_cursor: string
  replays: Replay[]
}

export interface ListReviewsResult {
  entries: Review[]
  /** Empty on the last page. */ next_cursor: string
}

export interface ListScheduledResult {
  next_cursor: string
  scheduled: ScheduledEvent[]
}

export interface ListSettingsResult {
  next_cursor: string
  settings: Setting[]
}

export interface ListStateResult {
  events: CloudEvent[]
  next_cursor: string
  /** The sequence of the snapshot. */ seq: number
  /** Ranges up to seq in which events may be lost, because the files of the log are damaged: a path may have an earlier event, or none. */ unreadable?: Gap[] | undefined
}

export interface ListSubscriptionEventsResult {
  events: (CloudEvent | Record<string, unknown>)[]
  /** Pass this as after to continue; all events up to here were examined. */ next_after: string
  replay_window_s: number
}

export interface ListSubscriptionsResult {
  next_cursor: string
  subscriptions: (Subscription | ListedMirror)[]
}

export interface ListTombstonesResult {
  tombstones: Tombstone[]
}

export interface ListTopicsResult {
  /** Absent unless they are asked for. */ mirrored_topics?: MirroredTopic[] | undefined
  /** Empty on the last page of both lists. */ next_cursor: string
  topics: Topic[]
}

export interface ListTrustedKeysResult {
  keys: TrustedKey[]
  /** Always empty. */ next_cursor: string
}

export interface ListUnsafeProducersResult {
  next_cursor: string
  producers: UnsafeProducer[]
}

export interface ListWatchesResult {
  next_cursor: string
  watches: Watch[]
}

/** A mirror in a list, with its status. */
export interface ListedMirror {
  /** The principal that created the mirror or resumed it last. */ approved_by: string
  /** When the copy was begun anew because its source has another log; absent if it never was. */ begun_at?: string | undefined
  created_at: string
  created_by: string
  /** When the credential was set. */ credential_at?: string | undefined
  depth: "catalog" | "summary" | "full"
  description: string
  /** Grant of that principal; absent for root. */ grant?: string | undefined
  id: SubscriptionID
  metadata?: Record<string, string> | undefined
  mode: "mirror"
  namespace: NamespaceName
  path_prefix?: string | undefined
  poll_interval: Duration
  reason?: "operator" | "label_raised" | "origin_replaced" | "mirror_cycle" | "access_revoked" | undefined
  revision: number
  source: string
  state: "active" | "suspended"
  status: MirrorStatus
  /** The reason in a sentence. */ suspend_detail?: string | undefined
  suspended_at?: string | undefined
  updated_at: string
  weight: number
}

export interface MatchSubscriptionBody {
  /** A CloudEvent, or {path, type, data}; it is not stored. */ event?: Record<string, unknown> | undefined
  /** ID or sequence of a stored event. */ event_id?: string | undefined
}

export interface MatchSubscriptionResult {
  /** The result of `policy.body` for the event, if it matches; 422 if the template fails on it. */ body?: string | undefined
  /** Content type of the body. */ content_type?: string | undefined
  /** Number of the latest events on the subscription's paths that were examined. */ examined: number
  /** The reason as a sentence. */ explanation?: string | undefined
  /** Absent without an event. */ matches?: boolean | undefined
  /** Why it does not match. */ reason?: "pattern" | "filter" | "filter_error" | undefined
  warnings: string[]
}

export interface Minted {
  description?: string | undefined
  expires_at: string
  id: GrantID
  issued_at: string
  issued_by: Principal
  object: Object
  on_behalf_of?: Principal | undefined
  /** The grant that this one derives from and ends with; absent if root issued it. */ parent?: GrantID | undefined
  principal: Principal
  revision: number
  revoked_at?: string | undefined
  revoked_by?: Principal | undefined
  /** A session of the portal. */ session?: boolean | undefined
  /** Bearer token of the holder; shown once. */ token: string
  verbs: Verb[]
}

/** A subscription of mode mirror. */
export interface Mirror {
  /** The principal that created the mirror or resumed it last. */ approved_by: string
  /** When the copy was begun anew because its source has another log; absent if it never was. */ begun_at?: string | undefined
  created_at: string
  created_by: string
  /** When the credential was set. */ credential_at?: string | undefined
  depth: "catalog" | "summary" | "full"
  description: string
  /** Grant of that principal; absent for root. */ grant?: string | undefined
  id: SubscriptionID
  metadata?: Record<string, string> | undefined
  mode: "mirror"
  namespace: NamespaceName
  path_prefix?: string | undefined
  poll_interval: Duration
  reason?: "operator" | "label_raised" | "origin_replaced" | "mirror_cycle" | "access_revoked" | undefined
  revision: number
  source: string
  state: "active" | "suspended"
  /** The reason in a sentence. */ suspend_detail?: string | undefined
  suspended_at?: string | undefined
  updated_at: string
  weight: number
}

/** The change of a mirror. */
export interface MirrorEdit {
  description?: string | undefined
  metadata?: Record<string, string> | undefined
  poll_interval?: Duration | undefined
  weight?: number | undefined
}

export interface MirrorFork {
  /** When it was refused first. */ at: string
  digest: string
  entries_sha256: string
  exported_at: string
  /** The bundle that was imported. */ imported_digest: string
  /** The key that signed it. */ kid: string
  since_sequence: number
  through_sequence: number
}

/** A frame of the feed of a mirror. */
export interface MirrorFrame {
  /** With `subscribed`: the cursor of the last change. */ current_seq?: number | undefined
  cursor?: number | undefined
  error?: Record<string, unknown> | undefined
  gap?: MirrorGap | undefined
  /** On a WebSocket, after 15 s without another frame. */ heartbeat?: Record<string, unknown> | undefined
  /** With `subscribed`: the ID of the copy; opaque. */ incarnation?: string | undefined
  item?: Item | undefined
  subscribed?: true | undefined
  /** How far the mirror has come; it follows the entries of each step. */ synced?: MirrorFrameSynced | undefined
}

/** How far the mirror has come; it follows the entries of each step. */
export interface MirrorFrameSynced {
  /** The ID of the copy, as with `subscribed`. */ incarnation: string
  source_seq: number
  watermark: number
}

/** A range of the source that the mirror does not have. */
export interface MirrorGap {
  at: string
  cause: "retention" | "damage" | "label" | "size" | "bundle" | "origin"
  /** First sequence. */ from: number
  /** Last sequence. */ to: number
}

export interface MirrorRequest {
  /** A token of a grant at the source that may only read. */ credential?: string | undefined
  depth?: "catalog" | "summary" | "full" | "claims" | "entries" | undefined
  description?: string | undefined
  id?: SubscriptionID | undefined
  metadata?: Record<string, string> | undefined
  mode: "mirror"
  /** The namespace that gets the copy; default: `default`. */ namespace?: NamespaceName | undefined
  /** Only entries whose path begins with this text; default: all. */ path_prefix?: string | undefined
  /** 10s to 24h; default: 1m. */ poll_interval?: Duration | undefined
  /** A namespace of this server, or `https://host/v1/namespaces/<ns>` of another one. */ source: string
  weight?: number | undefined
}

export interface MirrorStatus {
  /** Entries that became tombstones. */ deleted_count: number
  /** The error of the last sync, on the server that syncs the mirror. */ error?: string | undefined
  /** The state in a sentence. */ explanation: string
  /** Failed syncs since the last success. */ failures: number
  /** The last bundles that contradict imported ones. */ forks?: MirrorFork[] | undefined
  /** All gaps; `gaps` has the last 100. */ gap_count: number
  gaps: MirrorGap[]
  /** When the newest bundle was exported. */ heard_at?: string | undefined
  /** The log that is followed. */ incarnation?: string | undefined
  /** source_seq - watermark. */ lag_items: number
  /** Since the mirror had all that the source had; for bundles, since the export of the newest. */ lag_seconds: number
  /** The last success. */ last_sync_at: string | null
  /** Entries that are no tombstones. */ mirrored_count: number
  /** On the server that syncs the mirror. */ next_sync_at?: string | undefined
  /** Why it is suspended. */ reason?: string | undefined
  /** The last sequence of the source, as of the last sync. */ source_seq: number
  /** Nothing was heard of the source for twice the interval: no sync succeeded, or neither a bundle nor a heartbeat was exported. */ stale: boolean
  state: "idle" | "syncing" | "error" | "suspended"
  /** The last sequence of the source that is mirrored. */ watermark: number
}

export interface MirroredTopic {
  /** Entries that are no tombstones. */ entry_count: number
  /** The sequence of the last of them, at the source. */ latest_sequence: number
  /** The source of the mirror. */ source_notebook_id: string
  /** The mirror. */ subscription_id: string
  /** A path of the source. */ topic: string
}

/** push: sends every event. */
export type Mode = "push" | "wake" | "mirror"

export interface Module {
  /** The digest that was approved. */ approved?: string | undefined
  approved_at?: string | undefined
  approved_by?: string | undefined
  /** Files that differ from the approved ones. */ changed?: string[] | undefined
  /** Of its files on this server. */ digest?: string | undefined
  handlers?: ModuleHandler[] | undefined
  name: string
  /** Why its programs do not run. */ reason?: string | undefined
  /** What this server enforces on programs. */ restrictions?: string[] | undefined
  /** Its processes on the server that answers; absent in lists, and if it does not run there. */ running?: ModuleRun[] | undefined
  /** ID of the server that serves its subscriptions; absent in lists, and if none does. */ served_by?: string | undefined
  /** ID of the server that answers, as in `sys.start`. */ server?: string | undefined
  state: "found" | "approved" | "disabled" | "changed" | "unsafe" | "invalid" | "missing"
  /** It handles system events, so only root may approve it. */ system?: boolean | undefined
}

export interface ModuleHandler {
  /** Name of the endpoint of the module that gets the events, in place of a program. */ endpoint?: string | undefined
  event_type: string
  id: string
  mode: "exec" | "worker" | "endpoint"
  namespaces: string[]
  /** It may make connections. */ network?: boolean | undefined
  pattern: string
  /** Its standard output is events that are published. */ prints_events?: boolean | undefined
  /** Path of its file in the module. */ program?: string | undefined
  /** Events that it may publish in the namespace of the event that it handles; absent: none. */ publish?: Publishable[] | undefined
  /** Patterns of the paths that it may read in that namespace; absent: none. */ read?: string[] | undefined
  /** One for each namespace, in the same order. */ subscriptions: string[]
  /** Of the endpoint, its path and query hidden. */ url?: string | undefined
}

export interface ModuleHost {
  /** Restrictions that are not in force on this server. */ missing?: string[] | undefined
  /** Missing restrictions that matter, and the remedy. */ problem?: string | undefined
  /** In force on programs. */ restrictions: string[]
  /** That programs run as. */ user: string
}

export interface ModuleRun {
  /** Workers that ended by themselves, broke the rules or did not become ready, since the module has run there with these files. */ crashes?: number | undefined
  /** With processes now. */ events: number
  handler: string
  /** Why. */ last_crash?: string | undefined
  last_crash_at?: string | undefined
  /** Before this time no worker is started, since one has crashed. */ next_start?: string | undefined
  /** That run now. */ processes: number
  /** Of these, workers that take events. */ ready?: number | undefined
  subscription: string
  /** Events that wait for a worker. */ waiting?: number | undefined
}

export interface Namespace {
  catalogue: Catalogue
  created_at: string
  dedup_window: Duration
  description?: string | undefined
  /** The settings that are not the namespace's own: their values are defaults of the server, or limits of the log that a lower default did not shorten. */ inherited?: string[] | undefined
  label?: Label | undefined
  name: NamespaceName
  quota: Quota
  retention: Retention
  revision: number
  /** Visible to callers that may read the whole namespace. */ usage?: NamespaceUsage | undefined
}

export type NamespaceName = string

export interface NamespaceRequest {
  catalogue?: Catalogue | undefined
  dedup_window?: Duration | undefined
  description?: string | undefined
  /** Omitted fields of the label mean level PUBLIC and no compartments; without a label, the label is unchanged. */ label?: Label | undefined
  quota?: Quota | undefined
  retention?: Retention | undefined
}

/** Visible to callers that may read the whole namespace. */
export interface NamespaceUsage {
  bytes?: number | undefined
  events?: number | undefined
  first_seq?: number | undefined
  last_seq?: number | undefined
}

export interface Neighbour {
  item: Item
  /** The cosine, -1 to 1. */ similarity: number
}

export interface OK {
  ok: true
}

/** Everything, a namespace including its system paths, a subset of its paths, or its events about one entity (for the verb subscribe only). */
export type Object = string

export interface ObservePage {
  /** Sequence of the first stored event. */ first_seq: number
  /** There are changes behind through_seq. */ has_more: boolean
  /** Random ID of the log, made with it. */ incarnation: string
  /** Ascending. */ items: Change[]
  /** Label of the namespace. */ label: Label
  /** Sequence of the last stored event; 0 if there was none yet. */ last_seq: number
  /** Ranges between since and through_seq in which events may be lost, because the files of the log are damaged. */ lost?: Gap[] | undefined
  /** Logs of which the namespace has content in mirrors. */ passed: Hop[]
  /** Tag of the message at `since`, if one is stored. */ since_tag?: string | undefined
  /** The page has every change up to here that the caller may read; `since` of the next page. */ through_seq: number
  /** Tag of the message at `through_seq`, if it was read. */ through_tag?: string | undefined
}

export interface Overview {
  at: string
  /** Undelivered events of subscriptions of which one waits for a second or longer, or which are stopped. */ backlog: OverviewBacklog
  breakers: OverviewBreakers
  dead_letters: OverviewDeadLetters
  lanes: OverviewLanes
  /** Attempts of the last hour, to within five minutes. */ last_hour: OverviewLastHour
  /** The last ten entries, for admins of the namespace, or of the server without one. */ ledger?: LedgerEntry[] | undefined
  /** Attempts of the last hour by minute, of which the last one is not over yet. */ minutes: OverviewMinutesItem[]
  /** The oldest event that waits. */ oldest_undelivered?: OverviewOldestUndelivered | undefined
  /** Attempts in the last minute that all replicas have reported. */ rates: OverviewRates
  /** Replays under way. */ replays: number
  /** For admins of the server. */ server?: OverviewServer | undefined
  /** Number of subscriptions by health. */ subscriptions: Record<string, number>
  wake_consumers: WakeCounts
}

/** Undelivered events of subscriptions of which one waits for a second or longer, or which are stopped. */
export interface OverviewBacklog {
  /** All of these subscriptions were counted within the last minute. */ complete: boolean
  /** Events that were not examined yet or are in flight, and one for each parked lane. */ events: number
}

export interface OverviewBreakers {
  half_open: number
  open: number
}

export interface OverviewDeadLetters {
  /** Absent without any, and if the server has more than 10,000. */ by_reason?: Record<string, number> | undefined
  /** False if the server has more than 100,000: total is 0 then. */ counted: boolean
  total: number
}

export interface OverviewLanes {
  /** Lanes with another attempt within the next hour. */ due_in_hour: number
  held: number
  /** Lanes that wait for a retry, including the held ones. */ parked: number
}

/** Attempts of the last hour, to within five minutes. */
export interface OverviewLastHour {
  delivered: number
  failed: number
  failures: FailureCounts
  p50_ms?: number | undefined
  p95_ms?: number | undefined
  p99_ms?: number | undefined
}

export interface OverviewMinutesItem {
  at: string
  delivered: number
  failed: number
}

/** The oldest event that waits. */
export interface OverviewOldestUndelivered {
  age_seconds: number
  /** Time at which it was stored. */ at: string
  namespace: NamespaceName
  subscription: string
}

/** Attempts in the last minute that all replicas have reported. */
export interface OverviewRates {
  attempts_per_second: number
  deliveries_per_second: number
  /** Begin of the minute. */ minute: string
}

/** For admins of the server. */
export interface OverviewServer {
  /** Connected feeds of all replicas. */ feeds: number
  replicas: OverviewServerReplicasItem[]
  storage: Storage
  version: string
}

export interface OverviewServerReplicasItem {
  feeds: number
  id: string
  /** Parts of the subscriptions that it serves. */ leases: number
  seen_at: string
  version: string
}

export interface ParkedLane {
  attempts: number
  /** Sequence of the last event of the batch that failed and is sent again as it was. */ batch_to?: number | undefined
  event_id?: string | undefined
  first_failed_at?: string | undefined
  from_seq: number
  /** Why the lane is held; it waits for a retry or a discard. */ held?: Reason | undefined
  held_at?: string | undefined
  lane: string
  last_error?: string | undefined
  /** Absent: due immediately, unless held. */ next_at?: string | undefined
  path?: string | undefined
}

export type Path = string

export interface Policy {
  /** Several events in one request, as a CloudEvents batch: the next ones of the subscription, in the order of the log. */ batch?: PolicyBatch | undefined
  body?: Body | undefined
  /** The latest event of a path is sent in place of all that wait, once no event came on the path for a time. */ debounce?: PolicyDebounce | undefined
  /** The subscription has a durable consumer of its own where others of its namespace share one reader of the log. */ dedicated?: boolean | undefined
  disable_after?: Duration | undefined
  /** The default is template with `body`, and notice in mode wake. */ envelope?: "cloudevents" | "cloudevents-binary" | "fact" | "attempt" | "raw" | "template" | "notice" | undefined
  /** hold: instead of a dead letter, the lane waits until its head is retried or discarded. */ on_dead?: "continue" | "hold" | undefined
  on_gone?: "cancel" | "retry" | undefined
  ordering?: "path" | "all" | "none" | undefined
  /** How much of the data is sent: all of it, the `summary_fields` of the type's catalogue entry, or none. */ projection?: "full" | "summary" | "none" | undefined
  rate?: Rate | undefined
  retry?: PolicyRetry | undefined
  signature?: PolicySignature | undefined
  timeout?: Duration | undefined
  window?: number | undefined
}

/** Several events in one request, as a CloudEvents batch: the next ones of the subscription, in the order of the log. */
export interface PolicyBatch {
  /** Events in a request at most. */ max: number
  /** How long an event waits for more at most, up to 5m. */ wait?: Duration | undefined
}

/** The latest event of a path is sent in place of all that wait, once no event came on the path for a time. */
export interface PolicyDebounce {
  /** Time since the first event that waits, at most. */ max?: Duration | undefined
  /** Time without an event on the path, 100ms to 24h. */ quiet: Duration
}

export interface PolicyRetry {
  jitter?: number | undefined
  max_attempts?: number | undefined
  /** The default is persistent in mode wake, and short in a request with a target. */ preset?: "standard" | "short" | "persistent" | "stepped" | "custom" | undefined
  steps?: Duration[] | undefined
}

export interface PolicySignature {
  /** Header name, for the scheme header. */ name?: string | undefined
  scheme?: "standard" | "ed25519" | "t-sha256" | "header" | "rfc9421" | undefined
}

export interface PortalLink {
  /** The link can be used until then. */ expires_at: string
  /** The grant that the session derives from. */ grant: GrantID
  /** Why the URL is relative. */ hint?: string | undefined
  principal: Principal
  /** No later than the expiry of the grant. */ session_expires_at: string
  /** With the code in its fragment, which browsers send to no server. */ url: string
  /** Verbs of the session. */ verbs: Verb[]
}

/** Either grant, or principal and object. */
export interface PortalLinkRequest {
  grant?: GrantID | undefined
  /** How long the link can be used: 1s to 10m. */ link_ttl?: Duration | undefined
  /** Where the portal begins: a path of its own. */ next?: string | undefined
  object?: Object | undefined
  principal?: Principal | undefined
  /** Lifetime of the session, from now: 1m to 24h. */ ttl?: Duration | undefined
}

export interface PortalSession {
  expires_at: string
  /** The session. */ grant: GrantID
  namespace: NamespaceName
  /** From the link; empty if it names none. */ next: string
  object: Object
  principal: Principal
  /** Bearer token of the session; shown once. */ token: string
  verbs: Verb[]
}

/** Identity of a caller. */
export type Principal = string

export interface Problem {
  /** Requests for the subscription that may help. */ acts?: ("probe" | "retry" | "redrive" | "resume" | "pause" | "rotate" | "seek")[] | undefined
  /** The first 200 bytes of the last response, for the owner of the subscription. */ answer?: string | undefined
  /** Failed attempts since then. */ attempts: number
  changed_at?: string | undefined
  /** Who changed the state or the note last. */ changed_by?: string | undefined
  class: FailureClass
  /** Events with such failures since then: an estimate, exact for few, and 30,000 at most. */ events: number
  /** The subscription and the class. */ id: string
  /** The last failure. */ last_at: string
  namespace: NamespaceName
  /** The next attempt at an event with such a failure; absent if none is known. */ next_attempt_at?: string | undefined
  note?: string | undefined
  /** Paths of these events, in the same way. */ paths: number
  resolved_at?: string | undefined
  /** What the problem means, and the remedy. */ sentence: string
  /** The first failure, since the problem was last resolved. */ since: string
  state: ProblemState
  /** Status of the last response; absent if there was none. */ status?: number | undefined
  subscription: string
}

export interface ProblemChange {
  /** An empty one removes the note. */ note?: string | undefined
  state?: "open" | "acknowledged" | "ignored" | undefined
}

/** An acknowledged problem opens again if it occurs after it was resolved, an ignored one stays ignored. */
export type ProblemState = "open" | "acknowledged" | "ignored" | "resolved"

export interface Product {
  /** Path below which the API is. */ api: string
  /** Path of the console, a page for operators. */ console: string
  /** Path of this reference as a page. */ docs: string
  /** Path that responds while the process runs. */ health: string
  name: "Sluice"
  /** Path of the OpenAPI document. */ openapi: string
  /** Path of the OpenAPI document in YAML. */ openapi_yaml: string
  /** Path that reports whether requests can be served. */ ready: string
  summary: string
  version: string
}

export interface Profile {
  clearance: Label
  description?: string | undefined
  principal: Principal
}

export interface PublishEventsResult {
  events: Stored[]
}

export interface PublishEventsResult202 {
  events: Held[]
}

export interface Publishable {
  /** Of the paths. */ pattern: string
  /** Exact, or a prefix followed by ".*"; absent: every type. */ types?: string[] | undefined
}

export interface PutCredentialBody {
  /** A token of a grant that may only read. */ credential: string
}

export interface PutPrincipalBody {
  clearance?: Label | undefined
  description?: string | undefined
}

export interface PutTrustedKeyBody {
  jwk: BundleKey
  /** The `source_notebook_id` of the bundles: the URL of a namespace. */ source: string
}

/** Limits on what the API accepts for a namespace, counted per replica. */
export interface Quota {
  /** Events accepted at once; 0 means the number allowed per second. */ burst?: number | undefined
  /** Bytes of request bodies; also the burst. */ bytes_per_second?: number | undefined
  events_per_second?: number | undefined
}

/** Request rate limits; absent or 0 means unlimited. */
export interface Rate {
  /** Subscriptions of one principal in one namespace with the same key and limits share one rate. */ key?: string | undefined
  /** Both limits apply; 0 means unlimited. */ per_minute?: number | undefined
  per_second?: number | undefined
}

export interface Readiness {
  ok: boolean
  /** Storage problem: what is refused, or which log is missing, and the remedy. */ problem?: string | undefined
  storage: StorageLevel
}

export type Reason = "exhausted" | "expired" | "unreadable" | "refused" | "endpoint_gone" | "too_large" | "filter_error" | "invalid" | "loop" | "handler_refused" | "handler_crashed" | "output_refused"

/** The replay of dead letters as it starts. */
export interface Redrive {
  created_at: string
  created_by: string
  dead: number
  delivered: number
  ended_at?: string | undefined
  event_ids?: string[] | undefined
  from_seq: number
  id: string
  kind: "range" | "dead_letters"
  message?: string | undefined
  namespace: string
  next_seq: number
  rate?: Rate | undefined
  reason?: string | undefined
  revision?: number | undefined
  /** Dead letters that cannot be redriven. */ skipped: number
  state: "running" | "done" | "cancelled"
  subscription: string
  subscription_began: string
  to_seq: number
  total: number
  types?: string[] | undefined
  unreadable?: number | undefined
  updated_at: string
}

/** Set either ids or all. */
export interface RedriveRequest {
  all?: boolean | undefined
  /** Event IDs. */ ids?: string[] | undefined
  rate?: Rate | undefined
}

export interface RenewGrantBody {
  /** At most 90 days ahead; unchanged by default. */ expires_at?: string | undefined
}

export interface RenewJobBody {
  /** That of the claim. */ token: string
}

export interface Replay {
  created_at: string
  created_by: string
  /** Events that failed for good. */ dead: number
  delivered: number
  ended_at?: string | undefined
  event_ids?: string[] | undefined
  /** Start sequence in the namespace's log, or in the dead letters. */ from_seq: number
  id: string
  /** `retry` and `discard` act on the head of a held lane, `retry_lanes` on all parked lanes. */ kind: "range" | "dead_letters" | "retry" | "discard" | "retry_lanes" | "probe" | "proved"
  namespace: string
  /** All events before this sequence are done or waiting for a retry. */ next_seq: number
  rate?: Rate | undefined
  /** Why the replay was cancelled, or its result. */ reason?: string | undefined
  revision?: number | undefined
  state: "running" | "done" | "cancelled"
  subscription: string
  subscription_began: string
  to_seq: number
  /** Number of sequences from first to last, before pattern and filter: an upper bound. */ total: number
  types?: string[] | undefined
  /** Sequences of the replayed range that cannot be read because the files of the log are damaged: an upper bound, as far as the damage was found before the end. */ unreadable?: number | undefined
  updated_at: string
}

export interface Retention {
  /** "0s" for the server's default, "-1s" for unlimited. */ max_age?: Duration | undefined
  /** 0 for the default of the server, -1 for unlimited. */ max_bytes?: number | undefined
}

export interface Review {
  completed_comparisons: number
  entry: string
  /** Neighbours at the time of the embedding, mirrored ones included. */ expected_comparisons: number
  /** Label of the namespace. */ label?: Label | undefined
  /** The greatest effective friction of the present content. */ max_friction: number | null
  needs_review: boolean
  path: Path
  updated_at?: string | undefined
}

export interface RotateKeyRequest {
  /** How long the previous key stays: one for webhooks also signs. */ overlap?: Duration | undefined
  use?: "webhook" | "bundle" | undefined
}

export interface RotateSecretBody {
  overlap?: Duration | undefined
}

export interface ScheduledEvent {
  created_at: string
  created_by: string
  deliver_at: string
  event: CloudEvent
  id: string
  path: Path
  /** An event in state publishing cannot be cancelled. */ state: "waiting" | "publishing" | "retrying"
  type: string
}

export interface Sealing {
  keys: SealingKey[]
  /** Records with unsealed secrets. */ plain: number
}

export interface SealingKey {
  id: string
  /** Whether the server has the key. */ known: boolean
  /** Records with secrets sealed by the key. */ records: number
  /** Whether new secrets are sealed with the key. */ seals: boolean
}

export interface SearchBody {
  /** Instead: the id of an entry. */ entry?: string | undefined
  source?: "local" | "mirrored" | "all" | undefined
  /** The mirror of the entry; without it the entry is one of the namespace. */ subscription_id?: string | undefined
  /** Number of neighbours; default: the configured one. */ top_k?: number | undefined
  /** A vector with the configured number of dimensions. */ vector?: number[] | undefined
}

export interface SearchResult {
  /** The embedding model. */ model: string
  neighbours: Neighbour[]
  /** Entries without room in memory, which are not found; of many, the first 16,384. */ not_held: number
  /** Why the result may be incomplete, and the remedy. */ problem?: string | undefined
}

export interface SeekSubscriptionBody {
  /** A sequence, an event ID, an RFC 3339 time, an age such as 10m, all (or -1), new (or now), last_per_path. */ to: string | number
}

export interface Setting {
  /** Whether the value differs from the default. */ changed: boolean
  default: unknown
  /** Name in the configuration file, such as http.max_body. */ name: string
  /** Passwords, tokens and keys are "***". */ value: unknown
}

export interface ShortEvent {
  data?: unknown | undefined
  /** When to store the event, if in the future. */ deliver_at?: string | undefined
  /** Default: a generated UUIDv7. */ id?: string | undefined
  path?: Path | undefined
  source?: string | undefined
  subject?: string | undefined
  time?: string | undefined
  type?: string | undefined
}

export interface SigningKey {
  created_at: string
  /** The kid in the JWKS, for keys listed there. */ id: string
  /** When the key is removed; null for the newest key of a use, which signs. */ retires_at: string | null
  /** What the key signs: requests (the only use in the JWKS), capability tokens, trusted events, tokens of woken workers, tickets of feeds, bundles with their receipts. */ use: "webhook" | "grant" | "stamp" | "wake" | "feed" | "bundle"
}

/** Attempts of the last day in 48 steps of half an hour, of which the last one is not over yet. */
export interface Sparkline {
  delivered: number[]
  failed: number[]
  step: "30m"
}

export interface StartReplayBody {
  /** Only count the events. */ dry_run?: boolean | undefined
  event_ids?: string[] | undefined
  /** Inclusive start: a sequence, an event ID, an RFC 3339 time, or an age such as 10m; default: the oldest stored event. */ from?: string | number | undefined
  rate?: Rate | undefined
  /** Inclusive end, in the same format; default: the newest event at this moment. */ to?: string | number | undefined
  types?: string[] | undefined
}

export interface StartReplayResult {
  count: number
  exact: boolean
  /** Events on which the filter cannot be evaluated; not included in count. */ unevaluated?: number | undefined
}

export type State = "active" | "paused" | "disabled" | "suspended" | "cancelled"

export interface Statistics {
  points: StatisticsPoint[]
  step: "1m" | "5m" | "1h"
}

export interface StatisticsPoint {
  /** Begin of the step. */ at: string
  /** Attempts with a 2xx. */ delivered: number
  /** All other attempts. */ failed: number
  failures?: FailureCounts | undefined
  /** Estimate of the duration that 50 % of the attempts did not exceed, from a histogram. */ p50_ms?: number | undefined
  p95_ms?: number | undefined
  p99_ms?: number | undefined
}

export interface Status {
  ack_floor: number
  /** Events that were not examined yet or are in flight. */ backlog: number
  breaker: "closed" | "open" | "half_open"
  /** Only in mode wake, instead of the other counts. */ consumers?: WakeCounts | undefined
  dead_letters: number
  /** Parked lanes that wait for a retry or a discard. */ held: number
  in_flight: number
  lag_seconds: number
  /** While the breaker is open, the time of the next probe. */ next_attempt_at: string | null
  parked: number
  parked_lanes: ParkedLane[] | null
  reason?: string | undefined
  /** Why the subscription's events cannot be read from the log. */ source_error?: string | undefined
  state: State
  /** The backlog, plus all events in the parked lanes of parked_lanes, including their heads. */ undelivered?: number | undefined
}

export interface Storage {
  /** Damage that was found and not yet acknowledged by an operator. */ damage?: Damage[] | undefined
  /** Free space on the disk; absent if unknown. */ free_bytes?: number | undefined
  level: StorageLevel
  /** 0 if unknown. */ limit_bytes: number
  /** Streams and buckets that were deleted in NATS and not recreated. */ missing?: string[] | undefined
  /** What is refused at this level, or which streams are missing, and the remedy. */ problem?: string | undefined
  used_bytes: number
  verification?: StorageVerification | undefined
}

/** ample: everything is accepted. */
export type StorageLevel = "ample" | "tight" | "scarce" | "broken"

export interface StorageVerification {
  /** Absent while the verification runs. */ ended_at?: string | undefined
  /** Why the verification ended early. */ error?: string | undefined
  /** Number of messages read. */ read: number
  started_at: string
  /** The stream being read. */ stream?: string | undefined
  total: number
}

export interface Stored {
  /** An event with this ID was stored before; seq is its sequence. */ duplicate: boolean
  id: string
  path: Path
  seq: number
  /** The default type, `message`; only for events of that type. */ type?: string | undefined
}

export interface StoryEvent {
  /** ID of the event that caused it. */ caused_by?: string | undefined
  id: string
  path: string
  seq: number
  time?: string | undefined
  type: string
}

export interface Subscription {
  agreed?: Agreement | undefined
  cancelled_at?: string | undefined
  created_at: string
  created_by: string
  description: string
  enabled: boolean
  endpoint: Endpoint
  filter?: Filter | undefined
  /** ID of the grant that the subscription was created under and ends with; absent if root created it. */ grant?: string | undefined
  id: SubscriptionID
  idempotency_key?: string | undefined
  last_event_at: string | null
  metadata?: Record<string, string> | null | undefined
  /** That of a mirror is `mirror`. */ mode: "push" | "wake"
  /** Module whose program handles the events; absent for an endpoint. */ module?: string | undefined
  namespace: NamespaceName
  pattern: string
  policy: Policy
  /** Why the subscription is disabled, suspended or cancelled. */ reason?: string | undefined
  replay_window: Duration
  replay_window_s: number
  revision: number
  /** Returned only on creation and rotation. */ secret?: string | undefined
  /** The last four characters of the secret. */ secret_hint?: string | undefined
  /** When the subscription was last moved by a seek. */ sought_at?: string | undefined
  start: string
  state: State
  target?: string | undefined
  updated_at: string
}

export type SubscriptionEdit = Record<string, unknown> | MirrorEdit

export interface SubscriptionHealth {
  /** Events that were not examined yet or are in flight. */ backlog: number
  breaker: "closed" | "open" | "half_open"
  dead_letters: number
  /** Every attempt has failed since; absent if the failure is younger than a minute. */ failing_since?: string | undefined
  health: Health
  /** Parked lanes that wait for a retry or a discard. */ held: number
  id: string
  /** Age of the oldest undelivered event. */ lag_seconds: number
  last_attempt?: SubscriptionHealthLastAttempt | undefined
  /** Attempts of the last hour, to within five minutes. */ last_hour: SubscriptionHealthLastHour
  mode: Mode
  namespace: NamespaceName
  /** While the breaker is open, the time of the next probe. */ next_attempt_at?: string | undefined
  /** Lanes that wait for a retry, including the held ones. */ parked: number
  pattern: string
  /** Reason of the state. */ reason?: string | undefined
  /** Why the events cannot be read from the log. */ source_error?: string | undefined
  /** With the parameter sparkline. */ sparkline?: Sparkline | undefined
  state: State
  /** The endpoint; only its host unless the caller is its owner or root. */ url?: string | undefined
}

export interface SubscriptionHealthLastAttempt {
  at: string
  error?: string | undefined
  outcome: "delivered" | "failed" | "gone" | "refused"
  /** Status of the response; absent if there was none. */ status?: number | undefined
}

/** Attempts of the last hour, to within five minutes. */
export interface SubscriptionHealthLastHour {
  attempts: number
  /** Estimate of the duration that 95 % of the attempts did not exceed, from a histogram. */ p95?: Duration | undefined
  /** Percentage of attempts with a 2xx. */ success_percent?: number | undefined
}

export type SubscriptionID = string

export interface SubscriptionRequest {
  description?: string | undefined
  enabled?: boolean | undefined
  endpoint: Endpoint
  filter?: Filter | undefined
  id?: SubscriptionID | undefined
  idempotency_key?: string | undefined
  metadata?: Record<string, string> | undefined
  /** push: sends every event. */ mode?: "push" | "wake" | undefined
  namespace?: NamespaceName | undefined
  pattern: string
  policy?: Policy | undefined
  replay_window?: Duration | undefined
  /** new, all, last_per_path, a sequence or an RFC 3339 time. */ start?: string | number | undefined
}

/** The subscription with its secret, which no other response includes. */
export interface SubscriptionWithSecret {
  agreed?: Agreement | undefined
  cancelled_at?: string | undefined
  created_at: string
  created_by: string
  description: string
  enabled: boolean
  endpoint: Endpoint
  filter?: Filter | undefined
  /** ID of the grant that the subscription was created under and ends with; absent if root created it. */ grant?: string | undefined
  id: SubscriptionID
  idempotency_key?: string | undefined
  last_event_at: string | null
  metadata?: Record<string, string> | null | undefined
  /** That of a mirror is `mirror`. */ mode: "push" | "wake"
  /** Module whose program handles the events; absent for an endpoint. */ module?: string | undefined
  namespace: NamespaceName
  pattern: string
  policy: Policy
  /** Why the subscription is disabled, suspended or cancelled. */ reason?: string | undefined
  replay_window: Duration
  replay_window_s: number
  revision: number
  /** Returned only on creation and rotation. */ secret: string
  /** The last four characters of the secret. */ secret_hint?: string | undefined
  /** When the subscription was last moved by a seek. */ sought_at?: string | undefined
  start: string
  state: State
  target?: string | undefined
  updated_at: string
}

/** Short form for entity and scope subscriptions: short retries, envelope fact, timeout 10s. */
export interface TargetRequest {
  description?: string | undefined
  enabled?: boolean | undefined
  event_filter?: string[] | undefined
  id?: SubscriptionID | undefined
  idempotency_key?: string | undefined
  metadata?: Record<string, string> | undefined
  on_change: "webhook" | "wake"
  replay_window?: Duration | undefined
  scope?: string | undefined
  target: string
  wake_agent_id?: string | undefined
  webhook_url?: string | undefined
}

export interface TestSubscriptionBody {
  /** A type of the catalogue. */ type?: string | undefined
}

/** Each tier includes the previous ones. */
export type Tier = "existence" | "read" | "write" | "admin"

/** Checked in this order. */
export type TokenReason = "malformed" | "unknown_key" | "signature_invalid" | "expired" | "token_replay" | "revoked" | "other_namespace"

export interface Tombstone {
  at: string
  by: Principal
  namespace: NamespaceName
  path: Path
  /** All events on the path up to this sequence are erased. */ up_to_seq: number
}

export interface Topic {
  /** The sequence of its latest event. */ latest_sequence: number
  /** A path. */ topic: string
}

export interface TrustedKey {
  added_at: string
  jwk: BundleKey
  kid: string
  revoked_at?: string | undefined
  /** The source for which the key speaks. */ source: string
}

export interface UnsafeProducer {
  /** Its causes, nearest first. */ chain: Link[]
  /** Number of loops detected since then. */ count: number
  /** The last event that was refused or not delivered. */ event: Link
  hops: number
  last_at: string
  /** Namespace of the last loop. */ namespace: NamespaceName
  /** A principal; or, for events published through NATS, source:<namespace>:<source of the event>. */ producer: string
  since: string
}

/** admin includes all other verbs. */
export type Verb = "read" | "publish" | "subscribe" | "mirror" | "admin"

export interface Verdict {
  /** When the next attempt is due. */ again?: string | undefined
  cancel?: boolean | undefined
  dead?: "exhausted" | "expired" | "refused" | "too_large" | "filter_error" | "invalid" | "loop" | "handler_refused" | "handler_crashed" | "output_refused" | undefined
  /** Failed for good under on_dead: hold; the lane waits for a retry or a discard. */ held?: "exhausted" | "refused" | "too_large" | "filter_error" | "handler_refused" | "handler_crashed" | "output_refused" | undefined
  settled?: boolean | undefined
}

export interface Verification {
  /** If a verb and an object were given: whether the token permits them. */ allows?: boolean | undefined
  /** The reason of a refusal: the grant, or one that it derives from, lacks the verb or does not cover the object; the access list of the namespace; or its label, for which a principal of the grants is not cleared. */ denied_by?: "grant" | "access_list" | "label" | undefined
  /** The grant, for a token signed by this server. */ grant?: Grant | undefined
  /** Why the token is invalid. */ reason?: TokenReason | undefined
  valid: boolean
}

/** Either a token or a grant. */
export interface VerifyTokenBody {
  /** ID of a grant that the caller can see. */ grant?: string | undefined
  object?: Object | undefined
  token?: string | undefined
  /** Requires object. */ verb?: Verb | undefined
}

export interface WakeConsumer {
  /** Attempts of the last wake; not in lists. */ attempts?: Attempt[] | undefined
  /** Epoch of the last wake; 0 if there was none. */ epoch: number
  failing_since?: string | undefined
  /** Number of failed attempts of this wake. */ failures: number
  /** The subscription's ID, a colon, and the percent-encoded path. */ id: string
  last_error?: string | undefined
  /** In state live: deadline of the next callback. */ live_until?: string | undefined
  namespace: string
  /** In state waking: when the notice is sent again. */ next_attempt_at?: string | undefined
  /** The stream that the consumer was created for. */ path: string
  /** Some stream has unacknowledged events. */ pending?: boolean | undefined
  state: WakeState
  streams: WakeStream[]
  subscription: string
  wake_id?: string | undefined
  woken_at?: string | undefined
}

/** Number of consumers in each state. */
export type WakeCounts = Record<string, number>

export type WakeState = "idle" | "waking" | "live" | "removed"

export interface WakeStream {
  /** Last processed offset; -1 if none. */ acked: string
  path: string
  /** Not in lists. */ pending?: boolean | undefined
  /** End of the stream; not in lists. */ tail?: string | undefined
}

export interface WakeSubscription {
  agreed?: Agreement | undefined
  description: string
  /** Absent for false. */ handshake?: boolean | undefined
  pattern: string
  subscription_id: SubscriptionID
  webhook: string
  /** Signs the notices; only in the response to the creation. */ webhook_secret?: string | undefined
}

export interface WakeSubscriptionRequest {
  description?: string | undefined
  /** As an endpoint's. */ handshake?: boolean | undefined
  /** Where notices are sent. */ webhook: string
}

export interface Watch {
  action: Action
  cooldown: Duration
  created_at: string
  /** The principal on whose behalf the watch reads and publishes. */ created_by: string
  description?: string | undefined
  filter?: Filter | undefined
  for: Duration
  /** Exclusive start sequence of the watch. */ from_seq: number
  /** Grant under which the watch was created; absent if root created it. */ grant?: string | undefined
  id: SubscriptionID
  namespace: NamespaceName
  pattern: string
  revision: number
  status?: WatchStatus | undefined
  trigger: "edge" | "level"
}

export interface WatchRequest {
  action: Action
  /** Interval in which a path fires at most once; suppressed firings are reported. */ cooldown?: Duration | undefined
  description?: string | undefined
  /** `types`, `sources` and `subjects` select the events that are readings of their path; `labels` and `cel` are the condition that a reading meets or not. */ filter?: Filter | undefined
  /** How long the condition must hold before the watch fires. */ for?: Duration | undefined
  pattern: string
  /** Per path. */ trigger?: "edge" | "level" | undefined
}

/** Activity of the watch, up to five seconds old. */
export interface WatchStatus {
  /** Number of paths in cooldown. */ cooling: number
  /** When the last cooldown ends. */ cools_until?: string | undefined
  /** Number of firings. */ fired: number
  /** Time of the last firing. */ fired_at?: string | undefined
  /** Sequence of the reading that caused the last firing. */ fired_seq?: number | undefined
  /** Number of paths on which the condition holds; always 0 for a level trigger without `for`. */ holds: number
  /** Readings for which a firing was missed. */ missed: number
  /** Outcome of the last firing: ok, or an error code. */ outcome?: string | undefined
  /** Last sequence that was examined. */ place: number
  /** Number of readings that were examined. */ readings: number
  /** Readings that were throttled. */ throttled: number
}

export interface WatchTrial {
  /** Events on paths of the pattern that the caller may read. */ events: number
  /** How often the watch would have fired. */ fires: number
  /** The first hundred firings. */ firings: WatchTrialFiringsItem[]
  /** Readings for which the watch would have missed a firing, by reason. */ missed: Record<string, number>
  /** More events follow. */ more: boolean
  /** Last sequence that was examined. */ place: number
  /** Events that were readings. */ readings: number
  /** Exclusive start sequence of the simulation. */ since: number
  /** Readings that would have been throttled. */ throttled: number
}

export interface WatchTrialFiringsItem {
  /** When the reading was stored; with `for`, when that period ended. */ at: string
  id: string
  path: Path
  seq: number
  type: string
}

export interface WatchTrialRequest {
  cooldown?: Duration | undefined
  filter?: Filter | undefined
  for?: Duration | undefined
  pattern: string
  /** Exclusive start sequence; 0 means the last 10,000 events of the namespace. */ since?: number | undefined
  trigger?: "edge" | "level" | undefined
}

export interface WhoamiResult {
  /** Absent for root. */ grant?: Grant | undefined
  principal: Principal
}
