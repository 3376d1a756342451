# Generated from the OpenAPI document by `make clients`. Do not edit.
"""The types of requests and responses: dictionaries, as JSON has them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Bytes: TypeAlias = "bytes | str"
"""A body that is sent as it is."""


class ACL(TypedDict):
    entries: list[Access]
    namespace: NamespaceName
    pattern: NotRequired[str]
    principal: Principal
    tier: NotRequired[Tier]



class ACLRequest(TypedDict):
    """One entry, or several."""

    entries: NotRequired[list[Access]]
    pattern: NotRequired[str]
    tier: NotRequired[Tier]



class Access(TypedDict):
    """One entry of an access list."""

    pattern: NotRequired[str]
    tier: Tier



class AckWakeResult(TypedDict):
    next_wake: bool
    ok: bool



class Action(TypedDict):
    """The action to perform: publish an event in the namespace."""

    data: NotRequired[Any]
    datacontenttype: NotRequired[str]
    dataschema: NotRequired[str]
    extensions: NotRequired[dict[str, str]]
    path: Path
    source: NotRequired[str]
    subject: NotRequired[str]
    type: str



class Agreement(TypedDict):
    """The endpoint's response to the handshake."""

    at: str
    rate_per_minute: NotRequired[int]


AnySubscription: TypeAlias = "Subscription | Mirror"
"""Any subscription; those of the mode `mirror` have members of their own."""


class Appointment(TypedDict):
    action: Action
    at: str
    created_at: str
    created_by: str
    cron: NotRequired[str]
    every: NotRequired[str]
    grace: str
    grant: NotRequired[str]
    id: str
    last: NotRequired[AppointmentEnd]
    miss_policy: Literal["drop", "catch_up_within", "catch_up"]
    namespace: NamespaceName
    notice: str
    noticed: bool
    revision: int
    state: Literal["waiting", "firing", "fired", "missed"]
    time_zone: NotRequired[str]



class AppointmentEnd(TypedDict):
    """How the appointment ended; for a recurring one, the last firing."""

    at: str
    dispatch_outcome: NotRequired[str]
    event_id: NotRequired[str]
    reason: NotRequired[Literal["miss_policy", "grace_exceeded", "clock_untrusted"]]
    scheduled_for: str
    seq: NotRequired[int]
    state: Literal["fired", "missed"]



class AppointmentRequest(TypedDict):
    action: Action
    at: NotRequired[str]
    cron: NotRequired[str]
    every: NotRequired[str]
    grace: NotRequired[str]
    miss_policy: NotRequired[Literal["drop", "catch_up_within", "catch_up"]]
    notice: NotRequired[str]
    time_zone: NotRequired[str]



class ApproveModuleBody(TypedDict):
    digest: str


Attempt = TypedDict(
    "Attempt",
    {
        "batch": "NotRequired[list[AttemptBatchItem]]",
        "class": "NotRequired[FailureClass]",
        "duration": "Duration",
        "error": "NotRequired[str]",
        "event_id": "str",
        "number": "int",
        "outcome": 'Literal["delivered", "failed", "gone", "refused"]',
        "output": "NotRequired[str]",
        "path": "str",
        "payload_hash": "NotRequired[str]",
        "probe": "NotRequired[bool]",
        "published": "NotRequired[int]",
        "replay": "NotRequired[str]",
        "response": "NotRequired[str]",
        "seq": "int",
        "started_at": "str",
        "status": "NotRequired[int]",
        "subscription": "str",
        "supersedes_from": "NotRequired[int]",
        "type": "str",
        "verdict": "NotRequired[Verdict]",
    },
)


class AttemptBatchItem(TypedDict):
    event_id: str
    path: str
    seq: int
    type: str



class BatchResult(TypedDict):
    error: NotRequired[ErrorDescription]
    id: NotRequired[str]
    index: int
    secret: NotRequired[str]
    status: Literal["created", "exists", "error"]



class Body(TypedDict):
    """Template of the body, for the envelope `template`."""

    cel: NotRequired[str]
    content_type: NotRequired[str]
    preset: NotRequired[Literal["slack", "discord"]]



class Bundle(TypedDict):
    """The changes of a namespace in a range of sequences, signed with Ed25519 over the canonical form (RFC 8785) of all members but `signature`."""

    alg: Literal["Ed25519"]
    count: int
    entries: list[dict[str, Any]]
    entries_sha256: str
    exported_at: str
    first_sequence: int
    format: Literal["sluice.bundle/1"]
    heartbeat: bool
    incarnation: str
    kid: str
    label: Label
    lost: list[dict[str, Any]]
    passed: list[Hop]
    previous: str
    scope: Literal["catalog", "claims", "entries"]
    signature: str
    since_sequence: int
    source_notebook_id: str
    source_notebook_name: str
    through_sequence: int



class BundleArrival(TypedDict):
    missing: list[str]
    missing_bytes: int



class BundleImport(TypedDict):
    applied: int
    receipt: NotRequired[dict[str, Any]]
    watermark: int



class BundleKey(TypedDict):
    """An Ed25519 public key as a JWK (RFC 8037)."""

    alg: NotRequired[Literal["Ed25519", "EdDSA"]]
    crv: Literal["Ed25519"]
    kid: NotRequired[str]
    kty: Literal["OKP"]
    use: NotRequired[Literal["sig"]]
    x: str



class CallbackWakeResult(TypedDict):
    next_wake: bool
    ok: bool



class Capabilities(TypedDict):
    coalesce_labels: dict[str, list[str]]
    features: dict[str, Literal[True]]
    limits: dict[str, int]
    nats: CapabilitiesNats
    version: str
    wire_version: str



class CapabilitiesNats(TypedDict):
    """How events are published over NATS."""

    prefix: str
    subject: str


Catalogue: TypeAlias = 'Literal["open", "strict"]'
"""How the event types of the namespace are used."""


class Change(TypedDict):
    """A deletion has `op`, `seq`, `id`, `erased_seq` and, if a revision was erased, `revision_of`."""

    data: NotRequired[Any]
    data_after: NotRequired[str]
    data_base64: NotRequired[str]
    data_before: NotRequired[str]
    datacontenttype: NotRequired[str]
    dataschema: NotRequired[str]
    erased_seq: NotRequired[int]
    extensions: NotRequired[dict[str, str]]
    id: str
    op: Literal["write", "revise", "delete"]
    path: NotRequired[Path]
    revision_of: NotRequired[str]
    seq: int
    source: NotRequired[str]
    subject: NotRequired[str]
    time: NotRequired[str]
    type: NotRequired[str]



class ClaimJobsBody(TypedDict):
    max: NotRequired[int]
    types: NotRequired[list[JobType]]
    wait: NotRequired[Duration]
    worker: str



class ClaimJobsResult(TypedDict):
    jobs: list[ClaimedJob]



class ClaimWakeBody(TypedDict):
    worker: str



class ClaimWakeResult(TypedDict):
    generation: int
    lease_ttl_ms: int
    streams: list[DsubStream]
    token: str
    wake_id: str



class ClaimedJob(TypedDict):
    against: NotRequired[EntryRef]
    against_item: NotRequired[Item]
    attempts: int
    cross_boundary: NotRequired[bool]
    discount_factor: NotRequired[float]
    entry: EntryRef
    error: NotRequired[str]
    generation: NotRequired[int]
    id: str
    item: Item
    lease_ttl_ms: int
    lease_until: NotRequired[str]
    model: str
    namespace: NamespaceName
    not_before: NotRequired[str]
    priority: int
    state: JobState
    token: str
    type: JobType
    worker: NotRequired[str]



class CloudEvent(TypedDict):
    """A CloudEvents 1.0 event."""

    authid: NotRequired[str]
    authtype: NotRequired[Literal["user", "ai_agent", "service_account", "system", "unknown"]]
    causationid: NotRequired[str]
    correlationid: NotRequired[str]
    data: NotRequired[Any]
    data_base64: NotRequired[str]
    datacontenttype: NotRequired[str]
    dataschema: NotRequired[str]
    id: str
    namespace: NotRequired[str]
    path: NotRequired[Path]
    sequence: NotRequired[str]
    source: str
    specversion: Literal["1.0"]
    subject: NotRequired[str]
    time: NotRequired[str]
    type: str



class Comparison(TypedDict):
    against: EntryRef
    compared_at: str
    comparison: dict[str, Any]
    discount_factor: float
    effective_friction: float
    similarity: float
    superseded: NotRequired[bool]



class CompleteJobBody(TypedDict):
    comparison: NotRequired[CompleteJobBodyComparison]
    embedding: NotRequired[list[float]]
    token: str



class CompleteJobBodyComparison(TypedDict):
    """Of a comparison."""

    friction: float



class CreatePortalSessionBody(TypedDict):
    code: str



class CreateSubscriptionsResult(TypedDict):
    created: int
    exists: int
    failed: int
    results: list[BatchResult]


Damage = TypedDict(
    "Damage",
    {
        "found_at": "str",
        "from": "NotRequired[int]",
        "key": "NotRequired[str]",
        "kind": 'Literal["shorter", "fewer", "missing", "unreadable", "stale", "lost"]',
        "messages": "NotRequired[int]",
        "namespace": "NotRequired[str]",
        "path": "NotRequired[str]",
        "stream": "str",
        "to": "NotRequired[int]",
    },
)


class DeadLetter(TypedDict):
    at: str
    attempts: int
    event: NotRequired[CloudEvent]
    event_id: str
    first_failed_at: NotRequired[str]
    history: NotRequired[list[Attempt]]
    last_error: NotRequired[str]
    last_seq: NotRequired[int]
    last_status: NotRequired[int]
    namespace: str
    path: str
    reason: Reason
    redrivable: bool
    replay: NotRequired[str]
    seq: int
    subscription: str



class Delivery(TypedDict):
    attempt_count: int
    attempts: NotRequired[list[Attempt]]
    batch: NotRequired[int]
    behind: NotRequired[DeliveryBehind]
    event_id: str
    explanation: NotRequired[str]
    last_attempt_at: NotRequired[str]
    last_error: NotRequired[str]
    last_seq: NotRequired[int]
    last_status: NotRequired[int]
    next_attempt_at: NotRequired[str]
    path: str
    reason: NotRequired[str]
    seq: int
    state: DeliveryState
    type: str



class DeliveryBehind(TypedDict):
    """The event that this one waits for."""

    attempts: int
    event_id: NotRequired[str]
    held: NotRequired[Reason]
    last_error: NotRequired[str]
    next_attempt_at: NotRequired[str]
    seq: int


DeliveryState: TypeAlias = 'Literal["delivered", "retrying", "held", "dead", "waiting", "backlog", "in_flight", "not_wanted", "ended", "not_kept", "superseded", "not_recorded"]'
"""Lists show the first four states."""


class Dsub(TypedDict):
    created_at: str
    description: NotRequired[str]
    id: str
    lease_ttl_ms: int
    pattern: str | None
    status: Literal["active", "failed"]
    streams: list[DsubStreamsItem]
    subscription_id: str
    type: Literal["webhook", "pull-wake"]
    wake_stream: str | None
    webhook: NotRequired[DsubWebhook]



class DsubCall(TypedDict):
    acks: NotRequired[list[DsubCallAcksItem]]
    done: NotRequired[bool]
    generation: int
    wake_id: str



class DsubCallAcksItem(TypedDict):
    offset: str
    path: NotRequired[str]
    stream: NotRequired[str]



class DsubRequest(TypedDict):
    description: NotRequired[str]
    lease_ttl_ms: NotRequired[int]
    pattern: NotRequired[str]
    streams: NotRequired[list[str]]
    type: Literal["webhook", "pull-wake"]
    wake_stream: NotRequired[str]
    webhook: NotRequired[DsubRequestWebhook]



class DsubRequestWebhook(TypedDict):
    handshake: NotRequired[bool]
    url: NotRequired[str]



class DsubStream(TypedDict):
    acked_offset: str
    has_pending: bool
    link_type: Literal["glob", "explicit"]
    path: str
    tail_offset: str



class DsubStreamsItem(TypedDict):
    acked_offset: str
    link_type: Literal["glob", "explicit"]
    path: str



class DsubWebhook(TypedDict):
    agreed: NotRequired[Agreement]
    handshake: NotRequired[bool]
    signing: NotRequired[DsubWebhookSigning]
    url: NotRequired[str]



class DsubWebhookSigning(TypedDict):
    alg: NotRequired[str]
    jwks_url: NotRequired[str]
    kid: NotRequired[str]


Duration: TypeAlias = "str"
"""A Go duration."""


class Endpoint(TypedDict):
    auth: NotRequired[EndpointAuth]
    exec: NotRequired[list[str]]
    handshake: NotRequired[bool]
    headers: NotRequired[dict[str, str]]
    secret: NotRequired[str]
    tls: NotRequired[EndpointTLS]
    url: NotRequired[str]



class EndpointAuth(TypedDict):
    """Requests have a bearer token in `Authorization`, which the client credentials grant of OAuth 2 returns."""

    audience: NotRequired[str]
    client_id: str
    client_secret: NotRequired[str]
    scopes: NotRequired[list[str]]
    token_url: str
    type: Literal["oauth2"]



class EndpointTLS(TypedDict):
    """Client certificate, and authorities in place of the system's."""

    ca: NotRequired[str]
    certificate: NotRequired[str]
    not_after: NotRequired[str]
    private_key: NotRequired[str]



class Enrichment(TypedDict):
    dimensions: int
    lease: Duration
    max_attempts: int
    model: str
    namespace: NamespaceName
    pattern: str
    review_above: float
    revision: int
    top_k: int
    updated_at: str
    updated_by: str



class EnrichmentRequest(TypedDict):
    dimensions: int
    lease: NotRequired[Duration]
    max_attempts: NotRequired[int]
    model: str
    pattern: NotRequired[str]
    review_above: NotRequired[float]
    top_k: NotRequired[int]



class EnrichmentStatus(TypedDict):
    """The entries of a namespace in the memory of the answering replica."""

    embedded: int
    entries: int
    memory_bytes: int
    not_held: int
    not_held_more: NotRequired[bool]
    problem: NotRequired[str]



class EntombBody(TypedDict):
    path: Path



class EntryRef(TypedDict):
    id: str
    source: Literal["local", "mirrored"]
    subscription_id: NotRequired[str]


ErrorCode: TypeAlias = 'Literal["invalid_request", "unauthenticated", "forbidden", "capability_required", "not_found", "subscription_not_found", "method_not_allowed", "unsupported_media_type", "conflict", "subscription_conflict", "subscription_exists", "mirror_cycle", "mirror_suspended", "event_loop_detected", "replay_window_exceeded", "gone", "revision_mismatch", "too_large", "insecure_url", "blocked_address", "unknown_filter", "ambiguous_subscription", "secret_too_short", "wake_not_supported", "unknown_event_type", "invalid_event_data", "unprocessable", "quota_exceeded", "unavailable", "internal", "unknown_key", "no_matching_subscription", "bundle_signature_invalid", "bundle_imported", "bundle_gap", "bundle_fork", "origin_replaced", "token_invalid", "token_expired", "fenced"]'


class ErrorDescription(TypedDict):
    code: ErrorCode
    details: dict[str, Any]
    message: str



class EventDeliveries(TypedDict):
    causes: list[StoryEvent]
    complete: bool
    consequences: list[StoryEvent]
    deliveries: list[EventDelivery]
    event: StoryEvent
    next_cursor: str



class EventDelivery(TypedDict):
    """A delivery, with its attempts by run."""

    attempt_count: int
    attempts: NotRequired[list[Attempt]]
    batch: NotRequired[int]
    behind: NotRequired[EventDeliveryBehind]
    event_id: str
    explanation: NotRequired[str]
    last_attempt_at: NotRequired[str]
    last_error: NotRequired[str]
    last_seq: NotRequired[int]
    last_status: NotRequired[int]
    next_attempt_at: NotRequired[str]
    path: str
    reason: NotRequired[str]
    runs: list[EventDeliveryRunsItem]
    seq: int
    state: DeliveryState
    subscription: str
    type: str



class EventDeliveryBehind(TypedDict):
    """The event that this one waits for."""

    attempts: int
    event_id: NotRequired[str]
    held: NotRequired[Reason]
    last_error: NotRequired[str]
    next_attempt_at: NotRequired[str]
    seq: int



class EventDeliveryRunsItem(TypedDict):
    attempts: list[Attempt]
    kind: Literal["original", "replay", "redrive"]
    replay: NotRequired[str]



class EventType(TypedDict):
    created_at: str
    description: NotRequired[str]
    namespace: NamespaceName
    revision: int
    schema: NotRequired[Any]
    static_labels: NotRequired[dict[str, str]]
    summary_fields: NotRequired[list[str]]
    type: str
    updated_at: str



class EventTypeRequest(TypedDict):
    description: NotRequired[str]
    schema: NotRequired[Any]
    static_labels: NotRequired[dict[str, str]]
    summary_fields: NotRequired[list[str]]



class FailJobBody(TypedDict):
    error: NotRequired[str]
    final: NotRequired[bool]
    token: str


FailureClass: TypeAlias = 'Literal["timeout", "connection", "refused", "dns", "tls", "http_3xx", "http_4xx", "http_auth", "http_429", "http_5xx", "credential", "not_sent", "program", "other"]'
"""Kind of failure of an attempt."""

FailureCounts: TypeAlias = "dict[str, int]"
"""Number of failed attempts by class; classes without any are left out."""

FeedFrame: TypeAlias = "FeedFrameSubscribed | FeedFrameSeq | FeedFrameLagged | FeedFrameHeartbeat | FeedFrameError"
"""One frame of a feed."""


class FeedFrameError(TypedDict):
    """The last frame."""

    error: FeedFrameErrorError



class FeedFrameErrorError(TypedDict):
    code: ErrorCode
    details: dict[str, Any]
    message: str



class FeedFrameHeartbeat(TypedDict):
    """A keep-alive in the absence of events (WebSocket; server-sent events use a comment)."""

    heartbeat: FeedFrameHeartbeatHeartbeat



class FeedFrameHeartbeatHeartbeat(TypedDict):
    seq: NotRequired[int]



class FeedFrameLagged(TypedDict):
    """The number of frames that the reader missed."""

    lagged: Lagged



class FeedFrameSeq(TypedDict):
    """An event."""

    coalesced: NotRequired[int]
    event: CloudEvent
    resume: NotRequired[int]
    seq: int



class FeedFrameSubscribed(TypedDict):
    """The first frame."""

    current_seq: int
    incarnation: str
    subscribed: Literal[True]



class FeedTicket(TypedDict):
    expires_at: str
    ticket: str
    url: str



class FeedTicketRequest(TypedDict):
    ttl: NotRequired[Duration]



class Filter(TypedDict):
    """All set dimensions must match; within one dimension, any value matches."""

    cel: NotRequired[str]
    labels: NotRequired[dict[str, list[str]]]
    sources: NotRequired[list[str]]
    subjects: NotRequired[list[str]]
    types: NotRequired[list[str]]


Gap = TypedDict(
    "Gap",
    {
        "from": "int",
        "to": "int",
    },
)
"""A range of a log in which events may be lost, because its files are damaged."""


class GetComparisonsResult(TypedDict):
    comparisons: list[Comparison]
    completed_comparisons: int
    entry: str
    expected_comparisons: int
    label: NotRequired[Label]
    max_friction: float | None
    needs_review: bool
    path: Path
    updated_at: NotRequired[str]



class GetEnrichmentResult(TypedDict):
    dimensions: int
    lease: Duration
    max_attempts: int
    model: str
    namespace: NamespaceName
    pattern: str
    review_above: float
    revision: int
    status: EnrichmentStatus | None
    top_k: int
    updated_at: str
    updated_by: str



class GetKeysResult(TypedDict):
    keys: list[dict[str, Any]]



class Grant(TypedDict):
    description: NotRequired[str]
    expires_at: str
    id: GrantID
    issued_at: str
    issued_by: Principal
    object: Object
    on_behalf_of: NotRequired[Principal]
    parent: NotRequired[GrantID]
    principal: Principal
    revision: int
    revoked_at: NotRequired[str]
    revoked_by: NotRequired[Principal]
    session: NotRequired[bool]
    verbs: list[Verb]


GrantID: TypeAlias = "str"


class GrantRequest(TypedDict):
    description: NotRequired[str]
    expires_at: str
    object: Object
    on_behalf_of: NotRequired[Principal]
    principal: Principal
    verbs: list[Verb]


Health: TypeAlias = 'Literal["failing", "disabled", "suspended", "held", "retrying", "behind", "dead_letters", "paused", "ok", "cancelled"]'
"""Condition of a subscription, worst first."""


class Held(TypedDict):
    """A scheduled event."""

    deliver_at: str
    duplicate: bool
    id: str
    path: Path



class Hop(TypedDict):
    hops: int
    incarnation: str



class Item(TypedDict):
    """An entry of a namespace, its own or a mirrored one."""

    cursor: NotRequired[int]
    data: NotRequired[Any]
    data_after: NotRequired[str]
    data_base64: NotRequired[str]
    data_before: NotRequired[str]
    datacontenttype: NotRequired[str]
    dataschema: NotRequired[str]
    event_source: NotRequired[str]
    extensions: NotRequired[dict[str, str]]
    id: str
    label: NotRequired[Label]
    mirrored_at: NotRequired[str]
    op: Literal["write", "revise"]
    origin: NotRequired[str]
    path: NotRequired[Path]
    revision_of: NotRequired[str]
    seq: int
    source: Literal["local", "mirrored"]
    subject: NotRequired[str]
    subscription_id: NotRequired[str]
    time: NotRequired[str]
    tombstoned: bool
    type: NotRequired[str]
    weight: NotRequired[float]



class Job(TypedDict):
    against: NotRequired[EntryRef]
    attempts: int
    cross_boundary: NotRequired[bool]
    discount_factor: NotRequired[float]
    entry: EntryRef
    error: NotRequired[str]
    generation: NotRequired[int]
    id: str
    lease_until: NotRequired[str]
    model: str
    namespace: NamespaceName
    not_before: NotRequired[str]
    priority: int
    state: JobState
    type: JobType
    worker: NotRequired[str]


JobState: TypeAlias = 'Literal["pending", "claimed", "failed"]'

JobType: TypeAlias = 'Literal["embed", "embed_mirrored", "compare"]'


class Label(TypedDict):
    """Sensitivity of a resource and the compartments it belongs to; for a principal, its clearance."""

    compartments: NotRequired[list[str]]
    level: NotRequired[Level]



class Lagged(TypedDict):
    current_seq: int
    missed_count: int
    oldest_available_seq: int
    unreadable: NotRequired[Gap]



class LedgerEntry(TypedDict):
    action: str
    actor: str
    at: str
    error: NotRequired[ErrorCode]
    grant: NotRequired[str]
    id: str
    intent: NotRequired[str]
    namespace: NotRequired[NamespaceName]
    new: NotRequired[dict[str, Any]]
    old: NotRequired[dict[str, Any]]
    outcome: Literal["done", "failed"]
    request_id: NotRequired[str]
    resource: str
    seq: int


Level: TypeAlias = 'Literal["PUBLIC", "INTERNAL", "CONFIDENTIAL", "SECRET", "TOP_SECRET"]'


class Link(TypedDict):
    id: str
    path: Path
    type: str



class LinkStreamsBody(TypedDict):
    streams: list[str]



class ListACLResult(TypedDict):
    acl: list[ACL]



class ListAppointmentsResult(TypedDict):
    appointments: list[Appointment]
    next_cursor: str



class ListAttemptsResult(TypedDict):
    attempts: list[Attempt]
    next_after: str



class ListAuditResult(TypedDict):
    entries: list[LedgerEntry]
    next_cursor: str



class ListBundleKeysResult(TypedDict):
    keys: list[BundleKey]



class ListConsumersResult(TypedDict):
    consumers: list[WakeConsumer]
    counts: WakeCounts
    next_cursor: str



class ListDeadLettersResult(TypedDict):
    dead_letters: list[DeadLetter]
    next_cursor: str
    total: int



class ListDeliveriesResult(TypedDict):
    deliveries: list[Delivery]
    next_cursor: str



class ListEventTypesResult(TypedDict):
    event_types: list[EventType]
    next_cursor: str



class ListEventsResult(TypedDict):
    events: list[CloudEvent]
    next_cursor: str
    unreadable: NotRequired[list[Gap]]



class ListGrantsResult(TypedDict):
    grants: list[Grant]
    next_cursor: str



class ListHealthResult(TypedDict):
    counts: dict[str, int]
    next_cursor: str
    subscriptions: list[SubscriptionHealth]



class ListItemsResult(TypedDict):
    items: list[Item]
    next_cursor: str



class ListJobsResult(TypedDict):
    jobs: list[Job]
    next_cursor: str



class ListKeysResult(TypedDict):
    keys: list[SigningKey]
    next_cursor: str



class ListModulesResult(TypedDict):
    host: NotRequired[ModuleHost]
    modules: list[Module]



class ListNamespaceSubscriptionsResult(TypedDict):
    next_cursor: str
    subscriptions: list[Subscription | ListedMirror]



class ListNamespacesResult(TypedDict):
    namespaces: list[Namespace]
    next_cursor: str



class ListPrincipalsResult(TypedDict):
    principals: list[Profile]



class ListProblemsResult(TypedDict):
    counts: dict[str, int]
    next_cursor: str
    problems: list[Problem]



class ListReplaysResult(TypedDict):
    next_cursor: str
    replays: list[Replay]



class ListReviewsResult(TypedDict):
    entries: list[Review]
    next_cursor: str



class ListScheduledResult(TypedDict):
    next_cursor: str
    scheduled: list[ScheduledEvent]



class ListSettingsResult(TypedDict):
    next_cursor: str
    settings: list[Setting]



class ListStateResult(TypedDict):
    events: list[CloudEvent]
    next_cursor: str
    seq: int
    unreadable: NotRequired[list[Gap]]



class ListSubscriptionEventsResult(TypedDict):
    events: list[CloudEvent | dict[str, Any]]
    next_after: str
    replay_window_s: int



class ListSubscriptionsResult(TypedDict):
    next_cursor: str
    subscriptions: list[Subscription | ListedMirror]



class ListTombstonesResult(TypedDict):
    tombstones: list[Tombstone]



class ListTopicsResult(TypedDict):
    mirrored_topics: NotRequired[list[MirroredTopic]]
    next_cursor: str
    topics: list[Topic]



class ListTrustedKeysResult(TypedDict):
    keys: list[TrustedKey]
    next_cursor: str



class ListUnsafeProducersResult(TypedDict):
    next_cursor: str
    producers: list[UnsafeProducer]



class ListWatchesResult(TypedDict):
    next_cursor: str
    watches: list[Watch]



class ListedMirror(TypedDict):
    """A mirror in a list, with its status."""

    approved_by: str
    begun_at: NotRequired[str]
    created_at: str
    created_by: str
    credential_at: NotRequired[str]
    depth: Literal["catalog", "summary", "full"]
    description: str
    grant: NotRequired[str]
    id: SubscriptionID
    metadata: NotRequired[dict[str, str]]
    mode: Literal["mirror"]
    namespace: NamespaceName
    path_prefix: NotRequired[str]
    poll_interval: Duration
    reason: NotRequired[Literal["operator", "label_raised", "origin_replaced", "mirror_cycle", "access_revoked"]]
    revision: int
    source: str
    state: Literal["active", "suspended"]
    status: MirrorStatus
    suspend_detail: NotRequired[str]
    suspended_at: NotRequired[str]
    updated_at: str
    weight: float



class MatchSubscriptionBody(TypedDict):
    event: NotRequired[dict[str, Any]]
    event_id: NotRequired[str]



class MatchSubscriptionResult(TypedDict):
    body: NotRequired[str]
    content_type: NotRequired[str]
    examined: int
    explanation: NotRequired[str]
    matches: NotRequired[bool]
    reason: NotRequired[Literal["pattern", "filter", "filter_error"]]
    warnings: list[str]



class Minted(TypedDict):
    description: NotRequired[str]
    expires_at: str
    id: GrantID
    issued_at: str
    issued_by: Principal
    object: Object
    on_behalf_of: NotRequired[Principal]
    parent: NotRequired[GrantID]
    principal: Principal
    revision: int
    revoked_at: NotRequired[str]
    revoked_by: NotRequired[Principal]
    session: NotRequired[bool]
    token: str
    verbs: list[Verb]



class Mirror(TypedDict):
    """A subscription of mode mirror."""

    approved_by: str
    begun_at: NotRequired[str]
    created_at: str
    created_by: str
    credential_at: NotRequired[str]
    depth: Literal["catalog", "summary", "full"]
    description: str
    grant: NotRequired[str]
    id: SubscriptionID
    metadata: NotRequired[dict[str, str]]
    mode: Literal["mirror"]
    namespace: NamespaceName
    path_prefix: NotRequired[str]
    poll_interval: Duration
    reason: NotRequired[Literal["operator", "label_raised", "origin_replaced", "mirror_cycle", "access_revoked"]]
    revision: int
    source: str
    state: Literal["active", "suspended"]
    suspend_detail: NotRequired[str]
    suspended_at: NotRequired[str]
    updated_at: str
    weight: float



class MirrorEdit(TypedDict):
    """The change of a mirror."""

    description: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    poll_interval: NotRequired[Duration]
    weight: NotRequired[float]



class MirrorFork(TypedDict):
    at: str
    digest: str
    entries_sha256: str
    exported_at: str
    imported_digest: str
    kid: str
    since_sequence: int
    through_sequence: int



class MirrorFrame(TypedDict):
    """A frame of the feed of a mirror."""

    current_seq: NotRequired[int]
    cursor: NotRequired[int]
    error: NotRequired[dict[str, Any]]
    gap: NotRequired[MirrorGap]
    heartbeat: NotRequired[dict[str, Any]]
    incarnation: NotRequired[str]
    item: NotRequired[Item]
    subscribed: NotRequired[Literal[True]]
    synced: NotRequired[MirrorFrameSynced]



class MirrorFrameSynced(TypedDict):
    """How far the mirror has come; it follows the entries of each step."""

    incarnation: str
    source_seq: int
    watermark: int


MirrorGap = TypedDict(
    "MirrorGap",
    {
        "at": "str",
        "cause": 'Literal["retention", "damage", "label", "size", "bundle", "origin"]',
        "from": "int",
        "to": "int",
    },
)
"""A range of the source that the mirror does not have."""


class MirrorRequest(TypedDict):
    credential: NotRequired[str]
    depth: NotRequired[Literal["catalog", "summary", "full", "claims", "entries"]]
    description: NotRequired[str]
    id: NotRequired[SubscriptionID]
    metadata: NotRequired[dict[str, str]]
    mode: Literal["mirror"]
    namespace: NotRequired[NamespaceName]
    path_prefix: NotRequired[str]
    poll_interval: NotRequired[Duration]
    source: str
    weight: NotRequired[float]



class MirrorStatus(TypedDict):
    deleted_count: int
    error: NotRequired[str]
    explanation: str
    failures: int
    forks: NotRequired[list[MirrorFork]]
    gap_count: int
    gaps: list[MirrorGap]
    heard_at: NotRequired[str]
    incarnation: NotRequired[str]
    lag_items: int
    lag_seconds: float
    last_sync_at: str | None
    mirrored_count: int
    next_sync_at: NotRequired[str]
    reason: NotRequired[str]
    source_seq: int
    stale: bool
    state: Literal["idle", "syncing", "error", "suspended"]
    watermark: int



class MirroredTopic(TypedDict):
    entry_count: int
    latest_sequence: int
    source_notebook_id: str
    subscription_id: str
    topic: str


Mode: TypeAlias = 'Literal["push", "wake", "mirror"]'
"""push: sends every event."""


class Module(TypedDict):
    approved: NotRequired[str]
    approved_at: NotRequired[str]
    approved_by: NotRequired[str]
    changed: NotRequired[list[str]]
    digest: NotRequired[str]
    handlers: NotRequired[list[ModuleHandler]]
    name: str
    reason: NotRequired[str]
    restrictions: NotRequired[list[str]]
    running: NotRequired[list[ModuleRun]]
    served_by: NotRequired[str]
    server: NotRequired[str]
    state: Literal["found", "approved", "disabled", "changed", "unsafe", "invalid", "missing"]
    system: NotRequired[bool]



class ModuleHandler(TypedDict):
    endpoint: NotRequired[str]
    event_type: str
    id: str
    mode: Literal["exec", "worker", "endpoint"]
    namespaces: list[str]
    network: NotRequired[bool]
    pattern: str
    prints_events: NotRequired[bool]
    program: NotRequired[str]
    publish: NotRequired[list[Publishable]]
    read: NotRequired[list[str]]
    subscriptions: list[str]
    url: NotRequired[str]



class ModuleHost(TypedDict):
    missing: NotRequired[list[str]]
    problem: NotRequired[str]
    restrictions: list[str]
    user: str



class ModuleRun(TypedDict):
    crashes: NotRequired[int]
    events: int
    handler: str
    last_crash: NotRequired[str]
    last_crash_at: NotRequired[str]
    next_start: NotRequired[str]
    processes: int
    ready: NotRequired[int]
    subscription: str
    waiting: NotRequired[int]



class Namespace(TypedDict):
    catalogue: Catalogue
    created_at: str
    dedup_window: Duration
    description: NotRequired[str]
    inherited: NotRequired[list[str]]
    label: NotRequired[Label]
    name: NamespaceName
    quota: Quota
    retention: Retention
    revision: int
    usage: NotRequired[NamespaceUsage]


NamespaceName: TypeAlias = "str"


class NamespaceRequest(TypedDict):
    catalogue: NotRequired[Catalogue]
    dedup_window: NotRequired[Duration]
    description: NotRequired[str]
    label: NotRequired[Label]
    quota: NotRequired[Quota]
    retention: NotRequired[Retention]



class NamespaceUsage(TypedDict):
    """Visible to callers that may read the whole namespace."""

    bytes: NotRequired[int]
    events: NotRequired[int]
    first_seq: NotRequired[int]
    last_seq: NotRequired[int]



class Neighbour(TypedDict):
    item: Item
    similarity: float



class OK(TypedDict):
    ok: Literal[True]


Object: TypeAlias = "str"
"""Everything, a namespace including its system paths, a subset of its paths, or its events about one entity (for the verb subscribe only)."""


class ObservePage(TypedDict):
    first_seq: int
    has_more: bool
    incarnation: str
    items: list[Change]
    label: Label
    last_seq: int
    lost: NotRequired[list[Gap]]
    passed: list[Hop]
    since_tag: NotRequired[str]
    through_seq: int
    through_tag: NotRequired[str]



class Overview(TypedDict):
    at: str
    backlog: OverviewBacklog
    breakers: OverviewBreakers
    dead_letters: OverviewDeadLetters
    lanes: OverviewLanes
    last_hour: OverviewLastHour
    ledger: NotRequired[list[LedgerEntry]]
    minutes: list[OverviewMinutesItem]
    oldest_undelivered: NotRequired[OverviewOldestUndelivered]
    rates: OverviewRates
    replays: int
    server: NotRequired[OverviewServer]
    subscriptions: dict[str, int]
    wake_consumers: WakeCounts



class OverviewBacklog(TypedDict):
    """Undelivered events of subscriptions of which one waits for a second or longer, or which are stopped."""

    complete: bool
    events: int



class OverviewBreakers(TypedDict):
    half_open: int
    open: int



class OverviewDeadLetters(TypedDict):
    by_reason: NotRequired[dict[str, int]]
    counted: bool
    total: int



class OverviewLanes(TypedDict):
    due_in_hour: int
    held: int
    parked: int



class OverviewLastHour(TypedDict):
    """Attempts of the last hour, to within five minutes."""

    delivered: int
    failed: int
    failures: FailureCounts
    p50_ms: NotRequired[float]
    p95_ms: NotRequired[float]
    p99_ms: NotRequired[float]



class OverviewMinutesItem(TypedDict):
    at: str
    delivered: int
    failed: int



class OverviewOldestUndelivered(TypedDict):
    """The oldest event that waits."""

    age_seconds: float
    at: str
    namespace: NamespaceName
    subscription: str



class OverviewRates(TypedDict):
    """Attempts in the last minute that all replicas have reported."""

    attempts_per_second: float
    deliveries_per_second: float
    minute: str



class OverviewServer(TypedDict):
    """For admins of the server."""

    feeds: int
    replicas: list[OverviewServerReplicasItem]
    storage: Storage
    version: str



class OverviewServerReplicasItem(TypedDict):
    feeds: int
    id: str
    leases: int
    seen_at: str
    version: str



class ParkedLane(TypedDict):
    attempts: int
    batch_to: NotRequired[int]
    event_id: NotRequired[str]
    first_failed_at: NotRequired[str]
    from_seq: int
    held: NotRequired[Reason]
    held_at: NotRequired[str]
    lane: str
    last_error: NotRequired[str]
    next_at: NotRequired[str]
    path: NotRequired[str]


Path: TypeAlias = "str"


class Policy(TypedDict):
    batch: NotRequired[PolicyBatch]
    body: NotRequired[Body]
    debounce: NotRequired[PolicyDebounce]
    dedicated: NotRequired[bool]
    disable_after: NotRequired[Duration]
    envelope: NotRequired[Literal["cloudevents", "cloudevents-binary", "fact", "attempt", "raw", "template", "notice"]]
    on_dead: NotRequired[Literal["continue", "hold"]]
    on_gone: NotRequired[Literal["cancel", "retry"]]
    ordering: NotRequired[Literal["path", "all", "none"]]
    projection: NotRequired[Literal["full", "summary", "none"]]
    rate: NotRequired[Rate]
    retry: NotRequired[PolicyRetry]
    signature: NotRequired[PolicySignature]
    timeout: NotRequired[Duration]
    window: NotRequired[int]



class PolicyBatch(TypedDict):
    """Several events in one request, as a CloudEvents batch: the next ones of the subscription, in the order of the log."""

    max: int
    wait: NotRequired[Duration]



class PolicyDebounce(TypedDict):
    """The latest event of a path is sent in place of all that wait, once no event came on the path for a time."""

    max: NotRequired[Duration]
    quiet: Duration



class PolicyRetry(TypedDict):
    jitter: NotRequired[float]
    max_attempts: NotRequired[int]
    preset: NotRequired[Literal["standard", "short", "persistent", "stepped", "custom"]]
    steps: NotRequired[list[Duration]]



class PolicySignature(TypedDict):
    name: NotRequired[str]
    scheme: NotRequired[Literal["standard", "ed25519", "t-sha256", "header", "rfc9421"]]



class PortalLink(TypedDict):
    expires_at: str
    grant: GrantID
    hint: NotRequired[str]
    principal: Principal
    session_expires_at: str
    url: str
    verbs: list[Verb]



class PortalLinkRequest(TypedDict):
    """Either grant, or principal and object."""

    grant: NotRequired[GrantID]
    link_ttl: NotRequired[Duration]
    next: NotRequired[str]
    object: NotRequired[Object]
    principal: NotRequired[Principal]
    ttl: NotRequired[Duration]



class PortalSession(TypedDict):
    expires_at: str
    grant: GrantID
    namespace: NamespaceName
    next: str
    object: Object
    principal: Principal
    token: str
    verbs: list[Verb]


Principal: TypeAlias = "str"
"""Identity of a caller."""

Problem = TypedDict(
    "Problem",
    {
        "acts": 'NotRequired[list[Literal["probe", "retry", "redrive", "resume", "pause", "rotate", "seek"]]]',
        "answer": "NotRequired[str]",
        "attempts": "int",
        "changed_at": "NotRequired[str]",
        "changed_by": "NotRequired[str]",
        "class": "FailureClass",
        "events": "int",
        "id": "str",
        "last_at": "str",
        "namespace": "NamespaceName",
        "next_attempt_at": "NotRequired[str]",
        "note": "NotRequired[str]",
        "paths": "int",
        "resolved_at": "NotRequired[str]",
        "sentence": "str",
        "since": "str",
        "state": "ProblemState",
        "status": "NotRequired[int]",
        "subscription": "str",
    },
)


class ProblemChange(TypedDict):
    note: NotRequired[str]
    state: NotRequired[Literal["open", "acknowledged", "ignored"]]


ProblemState: TypeAlias = 'Literal["open", "acknowledged", "ignored", "resolved"]'
"""An acknowledged problem opens again if it occurs after it was resolved, an ignored one stays ignored."""


class Product(TypedDict):
    api: str
    console: str
    docs: str
    health: str
    name: Literal["Sluice"]
    openapi: str
    openapi_yaml: str
    ready: str
    summary: str
    version: str



class Profile(TypedDict):
    clearance: Label
    description: NotRequired[str]
    principal: Principal



class PublishEventsResult(TypedDict):
    events: list[Stored]



class PublishEventsResult202(TypedDict):
    events: list[Held]



class Publishable(TypedDict):
    pattern: str
    types: NotRequired[list[str]]



class PutCredentialBody(TypedDict):
    credential: str



class PutPrincipalBody(TypedDict):
    clearance: NotRequired[Label]
    description: NotRequired[str]



class PutTrustedKeyBody(TypedDict):
    jwk: BundleKey
    source: str



class Quota(TypedDict):
    """Limits on what the API accepts for a namespace, counted per replica."""

    burst: NotRequired[int]
    bytes_per_second: NotRequired[int]
    events_per_second: NotRequired[float]



class Rate(TypedDict):
    """Request rate limits; absent or 0 means unlimited."""

    key: NotRequired[str]
    per_minute: NotRequired[float]
    per_second: NotRequired[float]



class Readiness(TypedDict):
    ok: bool
    problem: NotRequired[str]
    storage: StorageLevel


Reason: TypeAlias = 'Literal["exhausted", "expired", "unreadable", "refused", "endpoint_gone", "too_large", "filter_error", "invalid", "loop", "handler_refused", "handler_crashed", "output_refused"]'


class Redrive(TypedDict):
    """The replay of dead letters as it starts."""

    created_at: str
    created_by: str
    dead: int
    delivered: int
    ended_at: NotRequired[str]
    event_ids: NotRequired[list[str]]
    from_seq: int
    id: str
    kind: Literal["range", "dead_letters"]
    message: NotRequired[str]
    namespace: str
    next_seq: int
    rate: NotRequired[Rate]
    reason: NotRequired[str]
    revision: NotRequired[int]
    skipped: int
    state: Literal["running", "done", "cancelled"]
    subscription: str
    subscription_began: str
    to_seq: int
    total: int
    types: NotRequired[list[str]]
    unreadable: NotRequired[int]
    updated_at: str



class RedriveRequest(TypedDict):
    """Set either ids or all."""

    all: NotRequired[bool]
    ids: NotRequired[list[str]]
    rate: NotRequired[Rate]



class RenewGrantBody(TypedDict):
    expires_at: NotRequired[str]



class RenewJobBody(TypedDict):
    token: str



class Replay(TypedDict):
    created_at: str
    created_by: str
    dead: int
    delivered: int
    ended_at: NotRequired[str]
    event_ids: NotRequired[list[str]]
    from_seq: int
    id: str
    kind: Literal["range", "dead_letters", "retry", "discard", "retry_lanes", "probe", "proved"]
    namespace: str
    next_seq: int
    rate: NotRequired[Rate]
    reason: NotRequired[str]
    revision: NotRequired[int]
    state: Literal["running", "done", "cancelled"]
    subscription: str
    subscription_began: str
    to_seq: int
    total: int
    types: NotRequired[list[str]]
    unreadable: NotRequired[int]
    updated_at: str



class Retention(TypedDict):
    max_age: NotRequired[Duration]
    max_bytes: NotRequired[int]



class Review(TypedDict):
    completed_comparisons: int
    entry: str
    expected_comparisons: int
    label: NotRequired[Label]
    max_friction: float | None
    needs_review: bool
    path: Path
    updated_at: NotRequired[str]



class RotateKeyRequest(TypedDict):
    overlap: NotRequired[Duration]
    use: NotRequired[Literal["webhook", "bundle"]]



class RotateSecretBody(TypedDict):
    overlap: NotRequired[Duration]



class ScheduledEvent(TypedDict):
    created_at: str
    created_by: str
    deliver_at: str
    event: CloudEvent
    id: str
    path: Path
    state: Literal["waiting", "publishing", "retrying"]
    type: str



class Sealing(TypedDict):
    keys: list[SealingKey]
    plain: int



class SealingKey(TypedDict):
    id: str
    known: bool
    records: int
    seals: bool



class SearchBody(TypedDict):
    entry: NotRequired[str]
    source: NotRequired[Literal["local", "mirrored", "all"]]
    subscription_id: NotRequired[str]
    top_k: NotRequired[int]
    vector: NotRequired[list[float]]



class SearchResult(TypedDict):
    model: str
    neighbours: list[Neighbour]
    not_held: int
    problem: NotRequired[str]



class SeekSubscriptionBody(TypedDict):
    to: str | int



class Setting(TypedDict):
    changed: bool
    default: Any
    name: str
    value: Any



class ShortEvent(TypedDict):
    data: NotRequired[Any]
    deliver_at: NotRequired[str]
    id: NotRequired[str]
    path: NotRequired[Path]
    source: NotRequired[str]
    subject: NotRequired[str]
    time: NotRequired[str]
    type: NotRequired[str]



class SigningKey(TypedDict):
    created_at: str
    id: str
    retires_at: str | None
    use: Literal["webhook", "grant", "stamp", "wake", "feed", "bundle"]



class Sparkline(TypedDict):
    """Attempts of the last day in 48 steps of half an hour, of which the last one is not over yet."""

    delivered: list[int]
    failed: list[int]
    step: Literal["30m"]


StartReplayBody = TypedDict(
    "StartReplayBody",
    {
        "dry_run": "NotRequired[bool]",
        "event_ids": "NotRequired[list[str]]",
        "from": "NotRequired[str | int]",
        "rate": "NotRequired[Rate]",
        "to": "NotRequired[str | int]",
        "types": "NotRequired[list[str]]",
    },
)


class StartReplayResult(TypedDict):
    count: int
    exact: bool
    unevaluated: NotRequired[int]


State: TypeAlias = 'Literal["active", "paused", "disabled", "suspended", "cancelled"]'


class Statistics(TypedDict):
    points: list[StatisticsPoint]
    step: Literal["1m", "5m", "1h"]



class StatisticsPoint(TypedDict):
    at: str
    delivered: int
    failed: int
    failures: NotRequired[FailureCounts]
    p50_ms: NotRequired[float]
    p95_ms: NotRequired[float]
    p99_ms: NotRequired[float]



class Status(TypedDict):
    ack_floor: int
    backlog: int
    breaker: Literal["closed", "open", "half_open"]
    consumers: NotRequired[WakeCounts]
    dead_letters: int
    held: int
    in_flight: int
    lag_seconds: float
    next_attempt_at: str | None
    parked: int
    parked_lanes: list[ParkedLane] | None
    reason: NotRequired[str]
    source_error: NotRequired[str]
    state: State
    undelivered: NotRequired[int]



class Storage(TypedDict):
    damage: NotRequired[list[Damage]]
    free_bytes: NotRequired[int]
    level: StorageLevel
    limit_bytes: int
    missing: NotRequired[list[str]]
    problem: NotRequired[str]
    used_bytes: int
    verification: NotRequired[StorageVerification]


StorageLevel: TypeAlias = 'Literal["ample", "tight", "scarce", "broken"]'
"""ample: everything is accepted."""


class StorageVerification(TypedDict):
    ended_at: NotRequired[str]
    error: NotRequired[str]
    read: int
    started_at: str
    stream: NotRequired[str]
    total: int



class Stored(TypedDict):
    duplicate: bool
    id: str
    path: Path
    seq: int
    type: NotRequired[str]



class StoryEvent(TypedDict):
    caused_by: NotRequired[str]
    id: str
    path: str
    seq: int
    time: NotRequired[str]
    type: str



class Subscription(TypedDict):
    agreed: NotRequired[Agreement]
    cancelled_at: NotRequired[str]
    created_at: str
    created_by: str
    description: str
    enabled: bool
    endpoint: Endpoint
    filter: NotRequired[Filter]
    grant: NotRequired[str]
    id: SubscriptionID
    idempotency_key: NotRequired[str]
    last_event_at: str | None
    metadata: NotRequired[dict[str, str] | None]
    mode: Literal["push", "wake"]
    module: NotRequired[str]
    namespace: NamespaceName
    pattern: str
    policy: Policy
    reason: NotRequired[str]
    replay_window: Duration
    replay_window_s: int
    revision: int
    secret: NotRequired[str]
    secret_hint: NotRequired[str]
    sought_at: NotRequired[str]
    start: str
    state: State
    target: NotRequired[str]
    updated_at: str


SubscriptionEdit: TypeAlias = "dict[str, Any] | MirrorEdit"


class SubscriptionHealth(TypedDict):
    backlog: int
    breaker: Literal["closed", "open", "half_open"]
    dead_letters: int
    failing_since: NotRequired[str]
    health: Health
    held: int
    id: str
    lag_seconds: float
    last_attempt: NotRequired[SubscriptionHealthLastAttempt]
    last_hour: SubscriptionHealthLastHour
    mode: Mode
    namespace: NamespaceName
    next_attempt_at: NotRequired[str]
    parked: int
    pattern: str
    reason: NotRequired[str]
    source_error: NotRequired[str]
    sparkline: NotRequired[Sparkline]
    state: State
    url: NotRequired[str]



class SubscriptionHealthLastAttempt(TypedDict):
    at: str
    error: NotRequired[str]
    outcome: Literal["delivered", "failed", "gone", "refused"]
    status: NotRequired[int]



class SubscriptionHealthLastHour(TypedDict):
    """Attempts of the last hour, to within five minutes."""

    attempts: int
    p95: NotRequired[Duration]
    success_percent: NotRequired[float]


SubscriptionID: TypeAlias = "str"


class SubscriptionRequest(TypedDict):
    description: NotRequired[str]
    enabled: NotRequired[bool]
    endpoint: Endpoint
    filter: NotRequired[Filter]
    id: NotRequired[SubscriptionID]
    idempotency_key: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    mode: NotRequired[Literal["push", "wake"]]
    namespace: NotRequired[NamespaceName]
    pattern: str
    policy: NotRequired[Policy]
    replay_window: NotRequired[Duration]
    start: NotRequired[str | int]



class SubscriptionWithSecret(TypedDict):
    """The subscription with its secret, which no other response includes."""

    agreed: NotRequired[Agreement]
    cancelled_at: NotRequired[str]
    created_at: str
    created_by: str
    description: str
    enabled: bool
    endpoint: Endpoint
    filter: NotRequired[Filter]
    grant: NotRequired[str]
    id: SubscriptionID
    idempotency_key: NotRequired[str]
    last_event_at: str | None
    metadata: NotRequired[dict[str, str] | None]
    mode: Literal["push", "wake"]
    module: NotRequired[str]
    namespace: NamespaceName
    pattern: str
    policy: Policy
    reason: NotRequired[str]
    replay_window: Duration
    replay_window_s: int
    revision: int
    secret: str
    secret_hint: NotRequired[str]
    sought_at: NotRequired[str]
    start: str
    state: State
    target: NotRequired[str]
    updated_at: str



class TargetRequest(TypedDict):
    """Short form for entity and scope subscriptions: short retries, envelope fact, timeout 10s."""

    description: NotRequired[str]
    enabled: NotRequired[bool]
    event_filter: NotRequired[list[str]]
    id: NotRequired[SubscriptionID]
    idempotency_key: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    on_change: Literal["webhook", "wake"]
    replay_window: NotRequired[Duration]
    scope: NotRequired[str]
    target: str
    wake_agent_id: NotRequired[str]
    webhook_url: NotRequired[str]



class TestSubscriptionBody(TypedDict):
    type: NotRequired[str]


Tier: TypeAlias = 'Literal["existence", "read", "write", "admin"]'
"""Each tier includes the previous ones."""

TokenReason: TypeAlias = 'Literal["malformed", "unknown_key", "signature_invalid", "expired", "token_replay", "revoked", "other_namespace"]'
"""Checked in this order."""


class Tombstone(TypedDict):
    at: str
    by: Principal
    namespace: NamespaceName
    path: Path
    up_to_seq: int



class Topic(TypedDict):
    latest_sequence: int
    topic: str



class TrustedKey(TypedDict):
    added_at: str
    jwk: BundleKey
    kid: str
    revoked_at: NotRequired[str]
    source: str



class UnsafeProducer(TypedDict):
    chain: list[Link]
    count: int
    event: Link
    hops: int
    last_at: str
    namespace: NamespaceName
    producer: str
    since: str


Verb: TypeAlias = 'Literal["read", "publish", "subscribe", "mirror", "admin"]'
"""admin includes all other verbs."""


class Verdict(TypedDict):
    again: NotRequired[str]
    cancel: NotRequired[bool]
    dead: NotRequired[Literal["exhausted", "expired", "refused", "too_large", "filter_error", "invalid", "loop", "handler_refused", "handler_crashed", "output_refused"]]
    held: NotRequired[Literal["exhausted", "refused", "too_large", "filter_error", "handler_refused", "handler_crashed", "output_refused"]]
    settled: NotRequired[bool]



class Verification(TypedDict):
    allows: NotRequired[bool]
    denied_by: NotRequired[Literal["grant", "access_list", "label"]]
    grant: NotRequired[Grant]
    reason: NotRequired[TokenReason]
    valid: bool



class VerifyTokenBody(TypedDict):
    """Either a token or a grant."""

    grant: NotRequired[str]
    object: NotRequired[Object]
    token: NotRequired[str]
    verb: NotRequired[Verb]



class WakeConsumer(TypedDict):
    attempts: NotRequired[list[Attempt]]
    epoch: int
    failing_since: NotRequired[str]
    failures: int
    id: str
    last_error: NotRequired[str]
    live_until: NotRequired[str]
    namespace: str
    next_attempt_at: NotRequired[str]
    path: str
    pending: NotRequired[bool]
    state: WakeState
    streams: list[WakeStream]
    subscription: str
    wake_id: NotRequired[str]
    woken_at: NotRequired[str]


WakeCounts: TypeAlias = "dict[str, int]"
"""Number of consumers in each state."""

WakeState: TypeAlias = 'Literal["idle", "waking", "live", "removed"]'


class WakeStream(TypedDict):
    acked: str
    path: str
    pending: NotRequired[bool]
    tail: NotRequired[str]



class WakeSubscription(TypedDict):
    agreed: NotRequired[Agreement]
    description: str
    handshake: NotRequired[bool]
    pattern: str
    subscription_id: SubscriptionID
    webhook: str
    webhook_secret: NotRequired[str]



class WakeSubscriptionRequest(TypedDict):
    description: NotRequired[str]
    handshake: NotRequired[bool]
    webhook: str


Watch = TypedDict(
    "Watch",
    {
        "action": "Action",
        "cooldown": "Duration",
        "created_at": "str",
        "created_by": "str",
        "description": "NotRequired[str]",
        "filter": "NotRequired[Filter]",
        "for": "Duration",
        "from_seq": "int",
        "grant": "NotRequired[str]",
        "id": "SubscriptionID",
        "namespace": "NamespaceName",
        "pattern": "str",
        "revision": "int",
        "status": "NotRequired[WatchStatus]",
        "trigger": 'Literal["edge", "level"]',
    },
)

WatchRequest = TypedDict(
    "WatchRequest",
    {
        "action": "Action",
        "cooldown": "NotRequired[Duration]",
        "description": "NotRequired[str]",
        "filter": "NotRequired[Filter]",
        "for": "NotRequired[Duration]",
        "pattern": "str",
        "trigger": 'NotRequired[Literal["edge", "level"]]',
    },
)


class WatchStatus(TypedDict):
    """Activity of the watch, up to five seconds old."""

    cooling: int
    cools_until: NotRequired[str]
    fired: int
    fired_at: NotRequired[str]
    fired_seq: NotRequired[int]
    holds: int
    missed: int
    outcome: NotRequired[str]
    place: int
    readings: int
    throttled: int



class WatchTrial(TypedDict):
    events: int
    fires: int
    firings: list[WatchTrialFiringsItem]
    missed: dict[str, int]
    more: bool
    place: int
    readings: int
    since: int
    throttled: int



class WatchTrialFiringsItem(TypedDict):
    at: str
    id: str
    path: Path
    seq: int
    type: str


WatchTrialRequest = TypedDict(
    "WatchTrialRequest",
    {
        "cooldown": "NotRequired[Duration]",
        "filter": "NotRequired[Filter]",
        "for": "NotRequired[Duration]",
        "pattern": "str",
        "since": "NotRequired[int]",
        "trigger": 'NotRequired[Literal["edge", "level"]]',
    },
)


class WhoamiResult(TypedDict):
    grant: NotRequired[Grant]
    principal: Principal

