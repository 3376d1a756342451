# Generated from the OpenAPI document by `make clients`. Do not edit.
"""The operations of the API. The class Sluice sends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from . import types as t
from .http import Frame, Response


class Operations:
    def _call(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Any:
        raise NotImplementedError

    def _whole(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Response:
        raise NotImplementedError

    def _frames(self, path: str, names: Mapping[str, str], query: Mapping[str, Any]) -> Iterator[Frame[Any]]:
        raise NotImplementedError

    def ack_wake(self, ns: t.NamespaceName, id: str, body: t.DsubCall) -> t.AckWakeResult:
        """Acknowledge progress of a worker: `POST /streams/{ns}/__ds/subscriptions/{id}/ack`."""
        return self._call("POST", "/streams/{ns}/__ds/subscriptions/{id}/ack", {"ns": ns, "id": id}, {}, {}, body)

    def append_to_stream(self, ns: t.NamespaceName, path: str, body: t.Bytes | None = None, *, stream_closed: str | None = None, stream_seq: str | None = None, producer_id: str | None = None, producer_epoch: int | None = None, producer_seq: int | None = None, content_type: str | None = None) -> Response:
        """Append to a stream, close it, or both: `POST /streams/{ns}/{path}`."""
        return self._whole("POST", "/streams/{ns}/{path}", {"ns": ns, "path": path}, {}, {"Stream-Closed": stream_closed, "Stream-Seq": stream_seq, "Producer-Id": producer_id, "Producer-Epoch": producer_epoch, "Producer-Seq": producer_seq, "Content-Type": content_type}, body)

    def approve_module(self, module: str, body: t.ApproveModuleBody, *, idempotency_key: str | None = None) -> t.Module:
        """Have the programs of a module run: `POST /v1/modules/{module}/approve`."""
        return self._call("POST", "/v1/modules/{module}/approve", {"module": module}, {}, {"Idempotency-Key": idempotency_key}, body)

    def callback_wake(self, ns: t.NamespaceName, id: str, body: t.DsubCall) -> t.CallbackWakeResult:
        """Report progress of a webhook worker: `POST /streams/{ns}/__ds/subscriptions/{id}/callback`."""
        return self._call("POST", "/streams/{ns}/__ds/subscriptions/{id}/callback", {"ns": ns, "id": id}, {}, {}, body)

    def cancel_appointment(self, ns: t.NamespaceName, id: str, *, if_match: str | None = None) -> None:
        """Cancel an appointment: `DELETE /v1/namespaces/{ns}/appointments/{id}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/appointments/{id}", {"ns": ns, "id": id}, {}, {"If-Match": if_match})

    def cancel_replay(self, id: t.SubscriptionID, replay: str, *, idempotency_key: str | None = None) -> t.Replay:
        """Cancel a replay: `POST /v1/subscriptions/{id}/replays/{replay}/cancel`."""
        return self._call("POST", "/v1/subscriptions/{id}/replays/{replay}/cancel", {"id": id, "replay": replay}, {}, {"Idempotency-Key": idempotency_key})

    def cancel_scheduled(self, ns: t.NamespaceName, event: str) -> None:
        """Cancel a scheduled event: `DELETE /v1/namespaces/{ns}/scheduled/{event}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/scheduled/{event}", {"ns": ns, "event": event}, {}, {})

    def change_problem(self, problem: str, body: t.ProblemChange) -> t.Problem:
        """Acknowledge, ignore or reopen a problem, or change its note: `PATCH /v1/problems/{problem}`."""
        return self._call("PATCH", "/v1/problems/{problem}", {"problem": problem}, {}, {}, body)

    def claim_jobs(self, ns: t.NamespaceName, body: t.ClaimJobsBody, *, idempotency_key: str | None = None) -> t.ClaimJobsResult:
        """Claim enrichment jobs for a worker: `POST /v1/namespaces/{ns}/jobs/claim`."""
        return self._call("POST", "/v1/namespaces/{ns}/jobs/claim", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def claim_wake(self, ns: t.NamespaceName, id: str, body: t.ClaimWakeBody) -> t.ClaimWakeResult:
        """Claim the wake of a pull-wake subscription: `POST /streams/{ns}/__ds/subscriptions/{id}/claim`."""
        return self._call("POST", "/streams/{ns}/__ds/subscriptions/{id}/claim", {"ns": ns, "id": id}, {}, {}, body)

    def clear_unsafe_producer(self, producer: str) -> None:
        """Clear the unsafe mark of a producer: `DELETE /v1/producers/unsafe/{producer}`."""
        return self._call("DELETE", "/v1/producers/unsafe/{producer}", {"producer": producer}, {}, {})

    def complete_job(self, ns: t.NamespaceName, job: str, body: t.CompleteJobBody, *, idempotency_key: str | None = None) -> None:
        """Store the result of a claimed job: `POST /v1/namespaces/{ns}/jobs/{job}/complete`."""
        return self._call("POST", "/v1/namespaces/{ns}/jobs/{job}/complete", {"ns": ns, "job": job}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_feed_ticket(self, ns: t.NamespaceName, body: t.FeedTicketRequest | None = None, *, idempotency_key: str | None = None) -> t.FeedTicket:
        """Create a ticket for feeds: `POST /v1/namespaces/{ns}/feed/tickets`."""
        return self._call("POST", "/v1/namespaces/{ns}/feed/tickets", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_namespace_subscription(self, ns: t.NamespaceName, body: t.SubscriptionRequest | t.TargetRequest | t.MirrorRequest, *, idempotency_key: str | None = None) -> t.Subscription | t.SubscriptionWithSecret | t.Mirror:
        """Create a subscription in a namespace: `POST /v1/namespaces/{ns}/subscriptions`."""
        return self._call("POST", "/v1/namespaces/{ns}/subscriptions", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_portal_link(self, body: t.PortalLinkRequest, *, idempotency_key: str | None = None) -> t.PortalLink:
        """Create a link that opens the portal once: `POST /v1/portal/links`."""
        return self._call("POST", "/v1/portal/links", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_portal_session(self, body: t.CreatePortalSessionBody, *, idempotency_key: str | None = None) -> t.PortalSession:
        """Exchange the code of a link for the token of a session: `POST /v1/portal/sessions`."""
        return self._call("POST", "/v1/portal/sessions", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_stream(self, ns: t.NamespaceName, path: str, body: Any = None, *, subscription: t.SubscriptionID | None = None, stream_ttl: str | None = None, stream_expires_at: str | None = None, stream_closed: str | None = None, stream_forked_from: str | None = None, stream_fork_offset: str | None = None, stream_fork_sub_offset: int | None = None, content_type: str | None = None) -> Response:
        """Create a stream, or confirm an identical one: `PUT /streams/{ns}/{path}`."""
        return self._whole("PUT", "/streams/{ns}/{path}", {"ns": ns, "path": path}, {"subscription": subscription}, {"Stream-TTL": stream_ttl, "Stream-Expires-At": stream_expires_at, "Stream-Closed": stream_closed, "Stream-Forked-From": stream_forked_from, "Stream-Fork-Offset": stream_fork_offset, "Stream-Fork-Sub-Offset": stream_fork_sub_offset, "Content-Type": content_type}, body)

    def create_subscription(self, body: t.SubscriptionRequest | t.TargetRequest | t.MirrorRequest, *, idempotency_key: str | None = None) -> t.Subscription | t.SubscriptionWithSecret | t.Mirror:
        """Create a subscription: `POST /v1/subscriptions`."""
        return self._call("POST", "/v1/subscriptions", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def create_subscriptions(self, body: list[t.SubscriptionRequest | t.TargetRequest] | t.Bytes, *, dry_run: bool | None = None, content_type: str | None = None, idempotency_key: str | None = None) -> t.CreateSubscriptionsResult:
        """Create up to 1,000 subscriptions: `POST /v1/subscriptions/batch`."""
        return self._call("POST", "/v1/subscriptions/batch", {}, {"dry_run": dry_run}, {"Content-Type": content_type, "Idempotency-Key": idempotency_key}, body)

    def delete_acl(self, ns: t.NamespaceName, principal: t.Principal) -> None:
        """Remove a principal from the access list: `DELETE /v1/namespaces/{ns}/acl/{principal}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/acl/{principal}", {"ns": ns, "principal": principal}, {}, {})

    def delete_enrichment(self, ns: t.NamespaceName) -> None:
        """End the enrichment of a namespace, and remove its embeddings and comparisons: `DELETE /v1/namespaces/{ns}/enrichment`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/enrichment", {"ns": ns}, {}, {})

    def delete_event_type(self, ns: t.NamespaceName, type: str, *, if_match: str | None = None) -> None:
        """Delete an event type: `DELETE /v1/namespaces/{ns}/event-types/{type}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/event-types/{type}", {"ns": ns, "type": type}, {}, {"If-Match": if_match})

    def delete_namespace(self, ns: t.NamespaceName) -> None:
        """Delete a namespace with its subscriptions and events: `DELETE /v1/namespaces/{ns}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}", {"ns": ns}, {}, {})

    def delete_principal(self, principal: t.Principal) -> None:
        """Delete the clearance of a principal, which is PUBLIC afterwards: `DELETE /v1/principals/{principal}`."""
        return self._call("DELETE", "/v1/principals/{principal}", {"principal": principal}, {}, {})

    def delete_stream(self, ns: t.NamespaceName, path: str, *, subscription: t.SubscriptionID | None = None) -> None:
        """Delete a stream: `DELETE /streams/{ns}/{path}`."""
        return self._call("DELETE", "/streams/{ns}/{path}", {"ns": ns, "path": path}, {"subscription": subscription}, {})

    def delete_stream_subscription(self, ns: t.NamespaceName, id: str) -> None:
        """Delete a stream subscription: `DELETE /streams/{ns}/__ds/subscriptions/{id}`."""
        return self._call("DELETE", "/streams/{ns}/__ds/subscriptions/{id}", {"ns": ns, "id": id}, {}, {})

    def delete_subscription(self, id: t.SubscriptionID) -> None:
        """Delete a subscription: `DELETE /v1/subscriptions/{id}`."""
        return self._call("DELETE", "/v1/subscriptions/{id}", {"id": id}, {}, {})

    def delete_trusted_key(self, ns: t.NamespaceName, kid: str) -> None:
        """Revoke a key; nothing that it signed is imported any more: `DELETE /v1/namespaces/{ns}/trusted-keys/{kid}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/trusted-keys/{kid}", {"ns": ns, "kid": kid}, {}, {})

    def delete_watch(self, ns: t.NamespaceName, id: t.SubscriptionID) -> None:
        """Cancel a watch: `DELETE /v1/namespaces/{ns}/watches/{id}`."""
        return self._call("DELETE", "/v1/namespaces/{ns}/watches/{id}", {"ns": ns, "id": id}, {}, {})

    def disable_module(self, module: str, *, idempotency_key: str | None = None) -> t.Module:
        """Stop the programs of a module: `POST /v1/modules/{module}/disable`."""
        return self._call("POST", "/v1/modules/{module}/disable", {"module": module}, {}, {"Idempotency-Key": idempotency_key})

    def discard_dead_letter(self, id: t.SubscriptionID, event: str) -> None:
        """Discard a dead letter: `DELETE /v1/subscriptions/{id}/dead-letters/{event}`."""
        return self._call("DELETE", "/v1/subscriptions/{id}/dead-letters/{event}", {"id": id, "event": event}, {}, {})

    def discard_dead_letters(self, id: t.SubscriptionID, *, all: Literal[True]) -> None:
        """Discard all dead letters of a subscription: `DELETE /v1/subscriptions/{id}/dead-letters`."""
        return self._call("DELETE", "/v1/subscriptions/{id}/dead-letters", {"id": id}, {"all": all}, {})

    def discard_delivery(self, id: t.SubscriptionID, event: str, *, idempotency_key: str | None = None) -> t.Replay:
        """Discard the event that holds its lane: `POST /v1/subscriptions/{id}/deliveries/{event}/discard`."""
        return self._call("POST", "/v1/subscriptions/{id}/deliveries/{event}/discard", {"id": id, "event": event}, {}, {"Idempotency-Key": idempotency_key})

    def entomb(self, ns: t.NamespaceName, body: t.EntombBody, *, idempotency_key: str | None = None) -> t.Tombstone:
        """Erase everything on a path, permanently: `POST /v1/namespaces/{ns}/tombstones`."""
        return self._call("POST", "/v1/namespaces/{ns}/tombstones", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def export_bundle(self, ns: t.NamespaceName, *, since: int | None = None, scope: Literal["catalog", "claims", "entries", "summary", "full"] | None = None, previous: str | None = None, form: Literal["document", "directory"] | None = None, max_bytes: int | None = None) -> t.Bundle:
        """Export the changes of a namespace as a signed bundle: `GET /v1/namespaces/{ns}/export`."""
        return self._call("GET", "/v1/namespaces/{ns}/export", {"ns": ns}, {"since": since, "scope": scope, "previous": previous, "form": form, "max_bytes": max_bytes}, {})

    def fail_job(self, ns: t.NamespaceName, job: str, body: t.FailJobBody, *, idempotency_key: str | None = None) -> t.Job:
        """Report that a claimed job could not be done: `POST /v1/namespaces/{ns}/jobs/{job}/fail`."""
        return self._call("POST", "/v1/namespaces/{ns}/jobs/{job}/fail", {"ns": ns, "job": job}, {}, {"Idempotency-Key": idempotency_key}, body)

    def feed(self, ns: t.NamespaceName, *, pattern: str | None = None, types: str | None = None, sources: list[str] | None = None, subjects: list[str] | None = None, labels: list[str] | None = None, cel: str | None = None, filter: str | None = None, target: str | None = None, since: str | None = None, incarnation: str | None = None, projection: Literal["full", "summary", "none"] | None = None, buffer: int | None = None, coalesce_labels: str | None = None, coalesce_window_ms: int | None = None, coalesce_keep: Literal["latest", "first"] | None = None, coalesce: str | None = None) -> Iterator[Frame[t.FeedFrame]]:
        """Stream events live: `GET /v1/namespaces/{ns}/feed`."""
        return self._frames("/v1/namespaces/{ns}/feed", {"ns": ns}, {"pattern": pattern, "types": types, "sources": sources, "subjects": subjects, "labels": labels, "cel": cel, "filter": filter, "target": target, "since": since, "incarnation": incarnation, "projection": projection, "buffer": buffer, "coalesce_labels": coalesce_labels, "coalesce_window_ms": coalesce_window_ms, "coalesce_keep": coalesce_keep, "coalesce": coalesce})

    def follow_mirror(self, ns: t.NamespaceName, *, subscription: str, after: int | None = None, path_prefix: str | None = None, incarnation: str | None = None) -> Iterator[Frame[t.MirrorFrame]]:
        """Follow the entries of a mirror live: `GET /v1/namespaces/{ns}/items/feed`."""
        return self._frames("/v1/namespaces/{ns}/items/feed", {"ns": ns}, {"subscription": subscription, "after": after, "path_prefix": path_prefix, "incarnation": incarnation})

    def forget_storage_damage(self) -> None:
        """Acknowledge the damage that was found: `DELETE /v1/storage/damage`."""
        return self._call("DELETE", "/v1/storage/damage", {}, {}, {})

    def get_acl(self, ns: t.NamespaceName, principal: t.Principal) -> t.ACL:
        """Get the access list entries of a principal: `GET /v1/namespaces/{ns}/acl/{principal}`."""
        return self._call("GET", "/v1/namespaces/{ns}/acl/{principal}", {"ns": ns, "principal": principal}, {}, {})

    def get_appointment(self, ns: t.NamespaceName, id: str) -> t.Appointment:
        """Get an appointment: `GET /v1/namespaces/{ns}/appointments/{id}`."""
        return self._call("GET", "/v1/namespaces/{ns}/appointments/{id}", {"ns": ns, "id": id}, {}, {})

    def get_capabilities(self, *, namespace: str | None = None) -> t.Capabilities:
        """Get the features and limits of this server: `GET /v1/capabilities`."""
        return self._call("GET", "/v1/capabilities", {}, {"namespace": namespace}, {})

    def get_comparisons(self, ns: t.NamespaceName, entry: str) -> t.GetComparisonsResult:
        """Show the comparisons of an entry: `GET /v1/namespaces/{ns}/comparisons/{entry}`."""
        return self._call("GET", "/v1/namespaces/{ns}/comparisons/{entry}", {"ns": ns, "entry": entry}, {}, {})

    def get_consumer(self, id: t.SubscriptionID, consumer: str) -> t.WakeConsumer:
        """Get a consumer with the ends of its streams and the attempts of its last wake: `GET /v1/subscriptions/{id}/consumers/{consumer}`."""
        return self._call("GET", "/v1/subscriptions/{id}/consumers/{consumer}", {"id": id, "consumer": consumer}, {}, {})

    def get_dead_letter(self, id: t.SubscriptionID, event: str) -> t.DeadLetter:
        """Get a dead letter with its event and its attempts: `GET /v1/subscriptions/{id}/dead-letters/{event}`."""
        return self._call("GET", "/v1/subscriptions/{id}/dead-letters/{event}", {"id": id, "event": event}, {}, {})

    def get_delivery(self, id: t.SubscriptionID, event: str) -> t.Delivery:
        """Explain the delivery of an event: `GET /v1/subscriptions/{id}/deliveries/{event}`."""
        return self._call("GET", "/v1/subscriptions/{id}/deliveries/{event}", {"id": id, "event": event}, {}, {})

    def get_enrichment(self, ns: t.NamespaceName) -> t.GetEnrichmentResult:
        """Show the enrichment of a namespace: `GET /v1/namespaces/{ns}/enrichment`."""
        return self._call("GET", "/v1/namespaces/{ns}/enrichment", {"ns": ns}, {}, {})

    def get_event(self, ns: t.NamespaceName, event: str) -> t.CloudEvent:
        """Get an event: `GET /v1/namespaces/{ns}/events/{event}`."""
        return self._call("GET", "/v1/namespaces/{ns}/events/{event}", {"ns": ns, "event": event}, {}, {})

    def get_event_type(self, ns: t.NamespaceName, type: str) -> t.EventType:
        """Get an event type: `GET /v1/namespaces/{ns}/event-types/{type}`."""
        return self._call("GET", "/v1/namespaces/{ns}/event-types/{type}", {"ns": ns, "type": type}, {}, {})

    def get_grant(self, grant: t.GrantID) -> t.Grant:
        """Get a grant, without its token: `GET /v1/grants/{grant}`."""
        return self._call("GET", "/v1/grants/{grant}", {"grant": grant}, {}, {})

    def get_job(self, ns: t.NamespaceName, job: str) -> t.Job:
        """Show an enrichment job: `GET /v1/namespaces/{ns}/jobs/{job}`."""
        return self._call("GET", "/v1/namespaces/{ns}/jobs/{job}", {"ns": ns, "job": job}, {}, {})

    def get_keys(self) -> t.GetKeysResult:
        """Get the public keys of the signature schemes ed25519 and rfc9421: `GET /.well-known/jwks.json`."""
        return self._call("GET", "/.well-known/jwks.json", {}, {}, {})

    def get_module(self, module: str) -> t.Module:
        """Show a module and its processes: `GET /v1/modules/{module}`."""
        return self._call("GET", "/v1/modules/{module}", {"module": module}, {}, {})

    def get_namespace(self, ns: t.NamespaceName) -> t.Namespace:
        """Get a namespace and its usage: `GET /v1/namespaces/{ns}`."""
        return self._call("GET", "/v1/namespaces/{ns}", {"ns": ns}, {}, {})

    def get_overview(self, *, namespace: t.NamespaceName | None = None) -> t.Overview:
        """Sum up the deliveries of all subscriptions: `GET /v1/overview`."""
        return self._call("GET", "/v1/overview", {}, {"namespace": namespace}, {})

    def get_principal(self, principal: t.Principal) -> t.Profile:
        """Get the clearance of a principal: `GET /v1/principals/{principal}`."""
        return self._call("GET", "/v1/principals/{principal}", {"principal": principal}, {}, {})

    def get_problem(self, problem: str) -> t.Problem:
        """Get a problem: `GET /v1/problems/{problem}`."""
        return self._call("GET", "/v1/problems/{problem}", {"problem": problem}, {}, {})

    def get_product(self) -> t.Product:
        """Get the name and version of the server, and the URLs of its documentation: `GET /`."""
        return self._call("GET", "/", {}, {}, {})

    def get_profile(self, profile: Literal["allocs", "block", "goroutine", "heap", "mutex", "profile", "threadcreate", "trace"], *, seconds: int | None = None, debug: Literal[0, 1, 2] | None = None) -> None:
        """Get a profile of the process, for `go tool pprof`: `GET /v1/debug/pprof/{profile}`."""
        return self._call("GET", "/v1/debug/pprof/{profile}", {"profile": profile}, {"seconds": seconds, "debug": debug}, {})

    def get_replay(self, id: t.SubscriptionID, replay: str) -> t.Replay:
        """Get a replay and its progress: `GET /v1/subscriptions/{id}/replays/{replay}`."""
        return self._call("GET", "/v1/subscriptions/{id}/replays/{replay}", {"id": id, "replay": replay}, {}, {})

    def get_scheduled(self, ns: t.NamespaceName, event: str) -> t.ScheduledEvent:
        """Get a scheduled event: `GET /v1/namespaces/{ns}/scheduled/{event}`."""
        return self._call("GET", "/v1/namespaces/{ns}/scheduled/{event}", {"ns": ns, "event": event}, {}, {})

    def get_sealing(self) -> t.Sealing:
        """List the keys that seal the secrets in the store: `GET /v1/secrets`."""
        return self._call("GET", "/v1/secrets", {}, {}, {})

    def get_state(self, ns: t.NamespaceName, path: str, *, at_seq: int | None = None) -> t.CloudEvent:
        """Get the latest event on one path: `GET /v1/namespaces/{ns}/state/{path}`."""
        return self._call("GET", "/v1/namespaces/{ns}/state/{path}", {"ns": ns, "path": path}, {"at_seq": at_seq}, {})

    def get_statistics(self, id: t.SubscriptionID, *, since: str | None = None, step: Literal["1m", "5m", "1h"] | None = None) -> t.Statistics:
        """Get the attempts of a subscription over the last day, in steps: `GET /v1/subscriptions/{id}/statistics`."""
        return self._call("GET", "/v1/subscriptions/{id}/statistics", {"id": id}, {"since": since, "step": step}, {})

    def get_status(self, id: t.SubscriptionID) -> t.Status | t.MirrorStatus:
        """Get the status of a subscription: `GET /v1/subscriptions/{id}/status`."""
        return self._call("GET", "/v1/subscriptions/{id}/status", {"id": id}, {}, {})

    def get_storage(self) -> t.Storage:
        """Get the storage usage: `GET /v1/storage`."""
        return self._call("GET", "/v1/storage", {}, {}, {})

    def get_stream_subscription(self, ns: t.NamespaceName, id: str) -> t.Dsub:
        """Get a subscription and the acknowledged offsets of its streams: `GET /streams/{ns}/__ds/subscriptions/{id}`."""
        return self._call("GET", "/streams/{ns}/__ds/subscriptions/{id}", {"ns": ns, "id": id}, {}, {})

    def get_subscription(self, id: t.SubscriptionID) -> t.AnySubscription:
        """Get a subscription: `GET /v1/subscriptions/{id}`."""
        return self._call("GET", "/v1/subscriptions/{id}", {"id": id}, {}, {})

    def get_watch(self, ns: t.NamespaceName, id: t.SubscriptionID) -> t.Watch:
        """Get a watch: `GET /v1/namespaces/{ns}/watches/{id}`."""
        return self._call("GET", "/v1/namespaces/{ns}/watches/{id}", {"ns": ns, "id": id}, {}, {})

    def head_mirror_stream(self, ns: t.NamespaceName, *, subscription: str) -> Response:
        """Get the end of the stream of a mirror: `HEAD /v1/namespaces/{ns}/items/stream`."""
        return self._whole("HEAD", "/v1/namespaces/{ns}/items/stream", {"ns": ns}, {"subscription": subscription}, {})

    def head_stream(self, ns: t.NamespaceName, path: str) -> Response:
        """Get the metadata of a stream: `HEAD /streams/{ns}/{path}`."""
        return self._whole("HEAD", "/streams/{ns}/{path}", {"ns": ns, "path": path}, {}, {})

    def healthz(self) -> t.OK:
        """Same as /livez, for checks that know this name: `GET /healthz`."""
        return self._call("GET", "/healthz", {}, {}, {})

    def import_bundle(self, ns: t.NamespaceName, body: t.Bundle | t.Bytes, *, accept_gap: bool | None = None, content_type: str | None = None, idempotency_key: str | None = None) -> t.BundleImport | t.BundleArrival:
        """Apply a bundle to the mirror of its source: `POST /v1/namespaces/{ns}/import`."""
        return self._call("POST", "/v1/namespaces/{ns}/import", {"ns": ns}, {"accept_gap": accept_gap}, {"Content-Type": content_type, "Idempotency-Key": idempotency_key}, body)

    def link_streams(self, ns: t.NamespaceName, id: str, body: t.LinkStreamsBody) -> None:
        """Link streams to a subscription: `POST /streams/{ns}/__ds/subscriptions/{id}/streams`."""
        return self._call("POST", "/streams/{ns}/__ds/subscriptions/{id}/streams", {"ns": ns, "id": id}, {}, {}, body)

    def list_acl(self, ns: t.NamespaceName) -> t.ListACLResult:
        """Get the access list of a namespace, by principal: `GET /v1/namespaces/{ns}/acl`."""
        return self._call("GET", "/v1/namespaces/{ns}/acl", {"ns": ns}, {}, {})

    def list_appointments(self, ns: t.NamespaceName, *, limit: int | None = None, cursor: str | None = None) -> t.ListAppointmentsResult:
        """List appointments, soonest first: `GET /v1/namespaces/{ns}/appointments`."""
        return self._call("GET", "/v1/namespaces/{ns}/appointments", {"ns": ns}, {"limit": limit, "cursor": cursor}, {})

    def list_attempts(self, ns: t.NamespaceName, *, after: str | None = None, wait: str | None = None, subscription: str | None = None, limit: int | None = None) -> t.ListAttemptsResult:
        """Follow attempts as they happen: `GET /v1/namespaces/{ns}/attempts`."""
        return self._call("GET", "/v1/namespaces/{ns}/attempts", {"ns": ns}, {"after": after, "wait": wait, "subscription": subscription, "limit": limit}, {})

    def list_audit(self, *, namespace: t.NamespaceName | None = None, resource: str | None = None, action: str | None = None, actor: str | None = None, since: str | None = None, until: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListAuditResult:
        """List ledger entries, newest first: `GET /v1/audit`."""
        return self._call("GET", "/v1/audit", {}, {"namespace": namespace, "resource": resource, "action": action, "actor": actor, "since": since, "until": until, "limit": limit, "cursor": cursor}, {})

    def list_bundle_keys(self, ns: t.NamespaceName) -> t.ListBundleKeysResult:
        """List the public keys that sign the bundles of a namespace: `GET /v1/namespaces/{ns}/bundle-keys`."""
        return self._call("GET", "/v1/namespaces/{ns}/bundle-keys", {"ns": ns}, {}, {})

    def list_consumers(self, id: t.SubscriptionID, *, state: t.WakeState | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListConsumersResult:
        """List the consumers of a subscription of mode wake, by path: `GET /v1/subscriptions/{id}/consumers`."""
        return self._call("GET", "/v1/subscriptions/{id}/consumers", {"id": id}, {"state": state, "limit": limit, "cursor": cursor}, {})

    def list_dead_letters(self, id: t.SubscriptionID, *, reason: t.Reason | None = None, path: str | None = None, since: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListDeadLettersResult:
        """List dead letters without their events, newest first: `GET /v1/subscriptions/{id}/dead-letters`."""
        return self._call("GET", "/v1/subscriptions/{id}/dead-letters", {"id": id}, {"reason": reason, "path": path, "since": since, "limit": limit, "cursor": cursor}, {})

    def list_deliveries(self, id: t.SubscriptionID, *, state: Literal["delivered", "retrying", "held", "parked", "dead", "failed"] | None = None, since: str | None = None, until: str | None = None, path: str | None = None, event_type: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListDeliveriesResult:
        """List deliveries by their latest change, newest first: `GET /v1/subscriptions/{id}/deliveries`."""
        return self._call("GET", "/v1/subscriptions/{id}/deliveries", {"id": id}, {"state": state, "since": since, "until": until, "path": path, "event_type": event_type, "limit": limit, "cursor": cursor}, {})

    def list_event_deliveries(self, ns: t.NamespaceName, event: str, *, limit: int | None = None, cursor: str | None = None) -> t.EventDeliveries:
        """Explain an event to every subscription: `GET /v1/namespaces/{ns}/events/{event}/deliveries`."""
        return self._call("GET", "/v1/namespaces/{ns}/events/{event}/deliveries", {"ns": ns, "event": event}, {"limit": limit, "cursor": cursor}, {})

    def list_event_types(self, ns: t.NamespaceName, *, limit: int | None = None, cursor: str | None = None) -> t.ListEventTypesResult:
        """List the event types in the catalogue of a namespace, newest first: `GET /v1/namespaces/{ns}/event-types`."""
        return self._call("GET", "/v1/namespaces/{ns}/event-types", {"ns": ns}, {"limit": limit, "cursor": cursor}, {})

    def list_events(self, ns: t.NamespaceName, *, pattern: str | None = None, types: str | None = None, since: str | None = None, until: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListEventsResult:
        """List events in log order: `GET /v1/namespaces/{ns}/events`."""
        return self._call("GET", "/v1/namespaces/{ns}/events", {"ns": ns}, {"pattern": pattern, "types": types, "since": since, "until": until, "limit": limit, "cursor": cursor}, {})

    def list_grants(self, *, principal: t.Principal | None = None, namespace: t.NamespaceName | None = None, state: Literal["active", "all"] | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListGrantsResult:
        """List the grants visible to the caller, newest first: `GET /v1/grants`."""
        return self._call("GET", "/v1/grants", {}, {"principal": principal, "namespace": namespace, "state": state, "limit": limit, "cursor": cursor}, {})

    def list_health(self, *, namespace: t.NamespaceName | None = None, health: str | None = None, sparkline: bool | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListHealthResult:
        """List subscriptions by the health of their deliveries, worst first: `GET /v1/health/subscriptions`."""
        return self._call("GET", "/v1/health/subscriptions", {}, {"namespace": namespace, "health": health, "sparkline": sparkline, "limit": limit, "cursor": cursor}, {})

    def list_items(self, ns: t.NamespaceName, *, source: Literal["local", "mirrored", "all"] | None = None, subscription: str | None = None, path_prefix: str | None = None, after: str | None = None, limit: int | None = None) -> t.ListItemsResult:
        """List the entries of a namespace and of its mirrors: `GET /v1/namespaces/{ns}/items`."""
        return self._call("GET", "/v1/namespaces/{ns}/items", {"ns": ns}, {"source": source, "subscription": subscription, "path_prefix": path_prefix, "after": after, "limit": limit}, {})

    def list_jobs(self, ns: t.NamespaceName, *, state: t.JobState | None = None, type: t.JobType | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListJobsResult:
        """List enrichment jobs: `GET /v1/namespaces/{ns}/jobs`."""
        return self._call("GET", "/v1/namespaces/{ns}/jobs", {"ns": ns}, {"state": state, "type": type, "limit": limit, "cursor": cursor}, {})

    def list_keys(self) -> t.ListKeysResult:
        """List the server's own keys, without secrets: `GET /v1/keys`."""
        return self._call("GET", "/v1/keys", {}, {}, {})

    def list_modules(self) -> t.ListModulesResult:
        """List the modules of the server: `GET /v1/modules`."""
        return self._call("GET", "/v1/modules", {}, {}, {})

    def list_namespace_subscriptions(self, ns: t.NamespaceName, *, order: Literal["created", "id"] | None = None, mode: t.Mode | None = None, state: t.State | None = None, source: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListNamespaceSubscriptionsResult:
        """List the subscriptions of a namespace that the caller manages, newest first: `GET /v1/namespaces/{ns}/subscriptions`."""
        return self._call("GET", "/v1/namespaces/{ns}/subscriptions", {"ns": ns}, {"order": order, "mode": mode, "state": state, "source": source, "limit": limit, "cursor": cursor}, {})

    def list_namespaces(self, *, limit: int | None = None, cursor: str | None = None) -> t.ListNamespacesResult:
        """List the namespaces visible to the caller, newest first: `GET /v1/namespaces`."""
        return self._call("GET", "/v1/namespaces", {}, {"limit": limit, "cursor": cursor}, {})

    def list_principals(self) -> t.ListPrincipalsResult:
        """List the clearances of principals, by name: `GET /v1/principals`."""
        return self._call("GET", "/v1/principals", {}, {}, {})

    def list_problems(self, *, namespace: t.NamespaceName | None = None, subscription: t.SubscriptionID | None = None, state: t.ProblemState | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListProblemsResult:
        """List problems, the open ones first, and of these the oldest: `GET /v1/problems`."""
        return self._call("GET", "/v1/problems", {}, {"namespace": namespace, "subscription": subscription, "state": state, "limit": limit, "cursor": cursor}, {})

    def list_replays(self, id: t.SubscriptionID) -> t.ListReplaysResult:
        """List the replays of a subscription, newest first: `GET /v1/subscriptions/{id}/replays`."""
        return self._call("GET", "/v1/subscriptions/{id}/replays", {"id": id}, {}, {})

    def list_reviews(self, ns: t.NamespaceName, *, needs_review: bool | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListReviewsResult:
        """List the entries that were compared: `GET /v1/namespaces/{ns}/comparisons`."""
        return self._call("GET", "/v1/namespaces/{ns}/comparisons", {"ns": ns}, {"needs_review": needs_review, "limit": limit, "cursor": cursor}, {})

    def list_scheduled(self, ns: t.NamespaceName, *, pattern: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListScheduledResult:
        """List scheduled events, soonest first: `GET /v1/namespaces/{ns}/scheduled`."""
        return self._call("GET", "/v1/namespaces/{ns}/scheduled", {"ns": ns}, {"pattern": pattern, "limit": limit, "cursor": cursor}, {})

    def list_settings(self) -> t.ListSettingsResult:
        """List the settings of the server that answers, without secrets: `GET /v1/settings`."""
        return self._call("GET", "/v1/settings", {}, {}, {})

    def list_state(self, ns: t.NamespaceName, *, pattern: str | None = None, types: str | None = None, sources: list[str] | None = None, subjects: list[str] | None = None, labels: list[str] | None = None, cel: str | None = None, filter: str | None = None, target: str | None = None, at_seq: int | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListStateResult:
        """Get the latest event on each path at a given sequence: `GET /v1/namespaces/{ns}/state`."""
        return self._call("GET", "/v1/namespaces/{ns}/state", {"ns": ns}, {"pattern": pattern, "types": types, "sources": sources, "subjects": subjects, "labels": labels, "cel": cel, "filter": filter, "target": target, "at_seq": at_seq, "limit": limit, "cursor": cursor}, {})

    def list_subscription_events(self, id: t.SubscriptionID, *, after: str | None = None, types: str | None = None, limit: int | None = None, wait: t.Duration | None = None, envelope: Literal["cloudevents", "fact"] | None = None) -> t.ListSubscriptionEventsResult:
        """List the events of a subscription within its replay window: `GET /v1/subscriptions/{id}/events`."""
        return self._call("GET", "/v1/subscriptions/{id}/events", {"id": id}, {"after": after, "types": types, "limit": limit, "wait": wait, "envelope": envelope}, {})

    def list_subscriptions(self, *, order: Literal["created", "id"] | None = None, namespace: str | None = None, mode: t.Mode | None = None, state: t.State | None = None, source: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListSubscriptionsResult:
        """List the subscriptions that the caller manages, newest first: `GET /v1/subscriptions`."""
        return self._call("GET", "/v1/subscriptions", {}, {"order": order, "namespace": namespace, "mode": mode, "state": state, "source": source, "limit": limit, "cursor": cursor}, {})

    def list_tombstones(self, ns: t.NamespaceName) -> t.ListTombstonesResult:
        """List the tombstones of a namespace, by path: `GET /v1/namespaces/{ns}/tombstones`."""
        return self._call("GET", "/v1/namespaces/{ns}/tombstones", {"ns": ns}, {}, {})

    def list_topics(self, ns: t.NamespaceName, *, include_mirrored: bool | None = None, path_prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> t.ListTopicsResult:
        """List the paths of a namespace and of its mirrors: `GET /v1/namespaces/{ns}/topics`."""
        return self._call("GET", "/v1/namespaces/{ns}/topics", {"ns": ns}, {"include_mirrored": include_mirrored, "path_prefix": path_prefix, "limit": limit, "cursor": cursor}, {})

    def list_trusted_keys(self, ns: t.NamespaceName) -> t.ListTrustedKeysResult:
        """List the keys whose bundles a namespace imports: `GET /v1/namespaces/{ns}/trusted-keys`."""
        return self._call("GET", "/v1/namespaces/{ns}/trusted-keys", {"ns": ns}, {}, {})

    def list_unsafe_producers(self, *, limit: int | None = None, cursor: str | None = None) -> t.ListUnsafeProducersResult:
        """List unsafe producers, most recent first: `GET /v1/producers/unsafe`."""
        return self._call("GET", "/v1/producers/unsafe", {}, {"limit": limit, "cursor": cursor}, {})

    def list_watches(self, ns: t.NamespaceName, *, limit: int | None = None, cursor: str | None = None) -> t.ListWatchesResult:
        """List the watches of a namespace that the caller manages, newest first: `GET /v1/namespaces/{ns}/watches`."""
        return self._call("GET", "/v1/namespaces/{ns}/watches", {"ns": ns}, {"limit": limit, "cursor": cursor}, {})

    def livez(self) -> t.OK:
        """Check that the process runs and answers; nothing else is looked at: `GET /livez`."""
        return self._call("GET", "/livez", {}, {}, {})

    def match_subscription(self, id: t.SubscriptionID, body: t.MatchSubscriptionBody | None = None, *, idempotency_key: str | None = None) -> t.MatchSubscriptionResult:
        """Try a subscription's pattern and filter on an event: `POST /v1/subscriptions/{id}/match`."""
        return self._call("POST", "/v1/subscriptions/{id}/match", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def mint_grant(self, body: t.GrantRequest, *, idempotency_key: str | None = None) -> t.Minted:
        """Issue a grant: `POST /v1/grants`."""
        return self._call("POST", "/v1/grants", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def observe(self, ns: t.NamespaceName, *, since: int | None = None, limit: int | None = None, depth: Literal["catalog", "summary", "full", "claims", "entries"] | None = None) -> t.ObservePage:
        """List the changes of a namespace, as another namespace follows it: `GET /v1/namespaces/{ns}/observe`."""
        return self._call("GET", "/v1/namespaces/{ns}/observe", {"ns": ns}, {"since": since, "limit": limit, "depth": depth}, {})

    def patch_subscription(self, id: t.SubscriptionID, body: t.SubscriptionEdit, *, if_match: str | None = None) -> t.AnySubscription:
        """Update a subscription with a JSON merge patch: `PATCH /v1/subscriptions/{id}`."""
        return self._call("PATCH", "/v1/subscriptions/{id}", {"id": id}, {}, {"If-Match": if_match}, body)

    def pause_subscription(self, id: t.SubscriptionID, *, idempotency_key: str | None = None) -> t.Subscription:
        """Pause deliveries; events wait in the log: `POST /v1/subscriptions/{id}/pause`."""
        return self._call("POST", "/v1/subscriptions/{id}/pause", {"id": id}, {}, {"Idempotency-Key": idempotency_key})

    def probe_subscription(self, id: t.SubscriptionID, *, idempotency_key: str | None = None) -> t.Replay:
        """Probe a failing endpoint now: `POST /v1/subscriptions/{id}/probe`."""
        return self._call("POST", "/v1/subscriptions/{id}/probe", {"id": id}, {}, {"Idempotency-Key": idempotency_key})

    def publish_events(self, ns: t.NamespaceName, body: t.CloudEvent | list[t.CloudEvent] | t.ShortEvent | t.CloudEvent | list[t.ShortEvent | t.CloudEvent] | t.Bytes, *, content_type: str | None = None, idempotency_key: str | None = None) -> t.PublishEventsResult | t.PublishEventsResult202:
        """Publish an event or a batch: `POST /v1/namespaces/{ns}/events`."""
        return self._call("POST", "/v1/namespaces/{ns}/events", {"ns": ns}, {}, {"Content-Type": content_type, "Idempotency-Key": idempotency_key}, body)

    def put_acl(self, ns: t.NamespaceName, principal: t.Principal, body: t.ACLRequest) -> t.ACL:
        """Set the access list entries of a principal: `PUT /v1/namespaces/{ns}/acl/{principal}`."""
        return self._call("PUT", "/v1/namespaces/{ns}/acl/{principal}", {"ns": ns, "principal": principal}, {}, {}, body)

    def put_appointment(self, ns: t.NamespaceName, id: str, body: t.AppointmentRequest, *, if_match: str | None = None) -> t.Appointment:
        """Create or update an appointment: `PUT /v1/namespaces/{ns}/appointments/{id}`."""
        return self._call("PUT", "/v1/namespaces/{ns}/appointments/{id}", {"ns": ns, "id": id}, {}, {"If-Match": if_match}, body)

    def put_credential(self, id: t.SubscriptionID, body: t.PutCredentialBody) -> t.Mirror:
        """Replace the token with which a mirror reads its source: `PUT /v1/subscriptions/{id}/credential`."""
        return self._call("PUT", "/v1/subscriptions/{id}/credential", {"id": id}, {}, {}, body)

    def put_enrichment(self, ns: t.NamespaceName, body: t.EnrichmentRequest, *, if_match: str | None = None) -> t.Enrichment:
        """Configure the enrichment of a namespace: `PUT /v1/namespaces/{ns}/enrichment`."""
        return self._call("PUT", "/v1/namespaces/{ns}/enrichment", {"ns": ns}, {}, {"If-Match": if_match}, body)

    def put_event_type(self, ns: t.NamespaceName, type: str, body: t.EventTypeRequest | None = None, *, if_match: str | None = None) -> t.EventType:
        """Create or update an event type: `PUT /v1/namespaces/{ns}/event-types/{type}`."""
        return self._call("PUT", "/v1/namespaces/{ns}/event-types/{type}", {"ns": ns, "type": type}, {}, {"If-Match": if_match}, body)

    def put_namespace(self, ns: t.NamespaceName, body: t.NamespaceRequest | None = None, *, if_match: str | None = None) -> t.Namespace:
        """Create or update a namespace: `PUT /v1/namespaces/{ns}`."""
        return self._call("PUT", "/v1/namespaces/{ns}", {"ns": ns}, {}, {"If-Match": if_match}, body)

    def put_principal(self, principal: t.Principal, body: t.PutPrincipalBody) -> t.Profile:
        """Set the clearance of a principal: `PUT /v1/principals/{principal}`."""
        return self._call("PUT", "/v1/principals/{principal}", {"principal": principal}, {}, {}, body)

    def put_stream_subscription(self, ns: t.NamespaceName, id: str, body: t.DsubRequest) -> t.Dsub:
        """Create a stream subscription, or confirm an identical one: `PUT /streams/{ns}/__ds/subscriptions/{id}`."""
        return self._call("PUT", "/streams/{ns}/__ds/subscriptions/{id}", {"ns": ns, "id": id}, {}, {}, body)

    def put_subscription(self, id: t.SubscriptionID, body: t.SubscriptionRequest | t.TargetRequest | t.MirrorRequest) -> t.Subscription | t.SubscriptionWithSecret | t.Mirror:
        """Create a subscription under a client-chosen ID: `PUT /v1/subscriptions/{id}`."""
        return self._call("PUT", "/v1/subscriptions/{id}", {"id": id}, {}, {}, body)

    def put_trusted_key(self, ns: t.NamespaceName, kid: str, body: t.PutTrustedKeyBody) -> t.TrustedKey:
        """Have a namespace import the bundles of a source that a key signed: `PUT /v1/namespaces/{ns}/trusted-keys/{kid}`."""
        return self._call("PUT", "/v1/namespaces/{ns}/trusted-keys/{kid}", {"ns": ns, "kid": kid}, {}, {}, body)

    def put_watch(self, ns: t.NamespaceName, id: t.SubscriptionID, body: t.WatchRequest | None = None) -> t.Watch:
        """Create a watch, or replace the one with this ID: `PUT /v1/namespaces/{ns}/watches/{id}`."""
        return self._call("PUT", "/v1/namespaces/{ns}/watches/{id}", {"ns": ns, "id": id}, {}, {}, body)

    def read_mirror_stream(self, ns: t.NamespaceName, *, subscription: str, offset: str | None = None, live: Literal["long-poll", "sse"] | None = None, cursor: str | None = None) -> Response:
        """Read a mirror as a Durable Stream: `GET /v1/namespaces/{ns}/items/stream`."""
        return self._whole("GET", "/v1/namespaces/{ns}/items/stream", {"ns": ns}, {"subscription": subscription, "offset": offset, "live": live, "cursor": cursor}, {})

    def read_stream(self, ns: t.NamespaceName, path: str, *, subscription: t.SubscriptionID | None = None, subscriptions: str | None = None, offset: str | None = None, live: Literal["long-poll", "sse"] | None = None, cursor: str | None = None) -> Response:
        """Read a stream from an offset: `GET /streams/{ns}/{path}`."""
        return self._whole("GET", "/streams/{ns}/{path}", {"ns": ns, "path": path}, {"subscription": subscription, "subscriptions": subscriptions, "offset": offset, "live": live, "cursor": cursor}, {})

    def readyz(self) -> t.Readiness:
        """Check that the server can serve requests (NATS and JetStream respond, and the disk accepts writes): `GET /readyz`."""
        return self._call("GET", "/readyz", {}, {}, {})

    def redrive_dead_letters(self, id: t.SubscriptionID, body: t.RedriveRequest, *, idempotency_key: str | None = None) -> t.Redrive:
        """Redrive dead letters: `POST /v1/subscriptions/{id}/dead-letters/redrive`."""
        return self._call("POST", "/v1/subscriptions/{id}/dead-letters/redrive", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def release_wake(self, ns: t.NamespaceName, id: str, body: t.DsubCall) -> None:
        """Release a wake: `POST /streams/{ns}/__ds/subscriptions/{id}/release`."""
        return self._call("POST", "/streams/{ns}/__ds/subscriptions/{id}/release", {"ns": ns, "id": id}, {}, {}, body)

    def remove_module(self, module: str) -> None:
        """End the approval of a module, and its subscriptions with it: `DELETE /v1/modules/{module}`."""
        return self._call("DELETE", "/v1/modules/{module}", {"module": module}, {}, {})

    def renew_grant(self, grant: t.GrantID, body: t.RenewGrantBody | None = None, *, idempotency_key: str | None = None) -> t.Minted:
        """Renew a grant: issue a new token and optionally a new expiry: `POST /v1/grants/{grant}/renew`."""
        return self._call("POST", "/v1/grants/{grant}/renew", {"grant": grant}, {}, {"Idempotency-Key": idempotency_key}, body)

    def renew_job(self, ns: t.NamespaceName, job: str, body: t.RenewJobBody, *, idempotency_key: str | None = None) -> t.Job:
        """Extend the lease of a claimed job: `POST /v1/namespaces/{ns}/jobs/{job}/renew`."""
        return self._call("POST", "/v1/namespaces/{ns}/jobs/{job}/renew", {"ns": ns, "job": job}, {}, {"Idempotency-Key": idempotency_key}, body)

    def resume_subscription(self, id: t.SubscriptionID, *, idempotency_key: str | None = None) -> t.AnySubscription:
        """Resume a paused, disabled or suspended subscription: `POST /v1/subscriptions/{id}/resume`."""
        return self._call("POST", "/v1/subscriptions/{id}/resume", {"id": id}, {}, {"Idempotency-Key": idempotency_key})

    def retry_delivery(self, id: t.SubscriptionID, event: str, *, idempotency_key: str | None = None) -> t.Replay:
        """Retry the delivery of an event: `POST /v1/subscriptions/{id}/deliveries/{event}/retry`."""
        return self._call("POST", "/v1/subscriptions/{id}/deliveries/{event}/retry", {"id": id, "event": event}, {}, {"Idempotency-Key": idempotency_key})

    def retry_job(self, ns: t.NamespaceName, job: str, *, idempotency_key: str | None = None) -> t.Job:
        """Have a failed job tried again: `POST /v1/namespaces/{ns}/jobs/{job}/retry`."""
        return self._call("POST", "/v1/namespaces/{ns}/jobs/{job}/retry", {"ns": ns, "job": job}, {}, {"Idempotency-Key": idempotency_key})

    def retry_lanes(self, id: t.SubscriptionID, *, idempotency_key: str | None = None) -> t.Replay:
        """Retry all parked lanes now: `POST /v1/subscriptions/{id}/retry`."""
        return self._call("POST", "/v1/subscriptions/{id}/retry", {"id": id}, {}, {"Idempotency-Key": idempotency_key})

    def revoke_grant(self, grant: t.GrantID, *, idempotency_key: str | None = None) -> t.Grant:
        """Revoke a grant and all grants derived from it, permanently: `POST /v1/grants/{grant}/revoke`."""
        return self._call("POST", "/v1/grants/{grant}/revoke", {"grant": grant}, {}, {"Idempotency-Key": idempotency_key})

    def rotate_key(self, body: t.RotateKeyRequest | None = None, *, idempotency_key: str | None = None) -> t.SigningKey:
        """Rotate the key of the signature schemes ed25519 and rfc9421: `POST /v1/keys/rotate`."""
        return self._call("POST", "/v1/keys/rotate", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def rotate_secret(self, id: t.SubscriptionID, body: t.RotateSecretBody | None = None, *, idempotency_key: str | None = None) -> t.SubscriptionWithSecret:
        """Rotate the secret of a subscription: `POST /v1/subscriptions/{id}/secret/rotate`."""
        return self._call("POST", "/v1/subscriptions/{id}/secret/rotate", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def search(self, ns: t.NamespaceName, body: t.SearchBody, *, idempotency_key: str | None = None) -> t.SearchResult:
        """Find the entries with the most similar embeddings: `POST /v1/namespaces/{ns}/search`."""
        return self._call("POST", "/v1/namespaces/{ns}/search", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def seek_subscription(self, id: t.SubscriptionID, body: t.SeekSubscriptionBody, *, idempotency_key: str | None = None) -> t.Subscription:
        """Move a subscription to another position in the log: `POST /v1/subscriptions/{id}/seek`."""
        return self._call("POST", "/v1/subscriptions/{id}/seek", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def start_replay(self, id: t.SubscriptionID, body: t.StartReplayBody | None = None, *, idempotency_key: str | None = None) -> t.StartReplayResult | t.Replay:
        """Replay past events: `POST /v1/subscriptions/{id}/replay`."""
        return self._call("POST", "/v1/subscriptions/{id}/replay", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def stream_keys(self, ns: t.NamespaceName) -> dict[str, Any]:
        """Get the keys that sign notices: `GET /streams/{ns}/__ds/jwks.json`."""
        return self._call("GET", "/streams/{ns}/__ds/jwks.json", {"ns": ns}, {}, {})

    def suspend_mirror(self, id: t.SubscriptionID, *, idempotency_key: str | None = None) -> t.Mirror:
        """Suspend a mirror; its entries stay readable: `POST /v1/subscriptions/{id}/suspend`."""
        return self._call("POST", "/v1/subscriptions/{id}/suspend", {"id": id}, {}, {"Idempotency-Key": idempotency_key})

    def sync_mirror(self, id: t.SubscriptionID, *, wait: t.Duration | None = None, idempotency_key: str | None = None) -> t.MirrorStatus | None:
        """Sync a mirror now: `POST /v1/subscriptions/{id}/sync`."""
        return self._call("POST", "/v1/subscriptions/{id}/sync", {"id": id}, {"wait": wait}, {"Idempotency-Key": idempotency_key})

    def test_subscription(self, id: t.SubscriptionID, body: t.TestSubscriptionBody | None = None, *, idempotency_key: str | None = None) -> t.Attempt:
        """Send a signed test event to the endpoint: `POST /v1/subscriptions/{id}/test`."""
        return self._call("POST", "/v1/subscriptions/{id}/test", {"id": id}, {}, {"Idempotency-Key": idempotency_key}, body)

    def test_watch(self, ns: t.NamespaceName, body: t.WatchTrialRequest | None = None, *, idempotency_key: str | None = None) -> t.WatchTrial:
        """Simulate a watch over past events: `POST /v1/namespaces/{ns}/watches/test`."""
        return self._call("POST", "/v1/namespaces/{ns}/watches/test", {"ns": ns}, {}, {"Idempotency-Key": idempotency_key}, body)

    def unlink_stream(self, ns: t.NamespaceName, id: str, path: str) -> None:
        """Unlink a stream: `DELETE /streams/{ns}/__ds/subscriptions/{id}/streams/{path}`."""
        return self._call("DELETE", "/streams/{ns}/__ds/subscriptions/{id}/streams/{path}", {"ns": ns, "id": id, "path": path}, {}, {})

    def verify_storage(self, *, idempotency_key: str | None = None) -> t.StorageVerification:
        """Verify everything that is stored: `POST /v1/storage/verify`."""
        return self._call("POST", "/v1/storage/verify", {}, {}, {"Idempotency-Key": idempotency_key})

    def verify_token(self, body: t.VerifyTokenBody, *, idempotency_key: str | None = None) -> t.Verification:
        """Verify a token or a grant, and its permissions: `POST /v1/grants/verify`."""
        return self._call("POST", "/v1/grants/verify", {}, {}, {"Idempotency-Key": idempotency_key}, body)

    def whoami(self, *, wait: t.Duration | None = None) -> t.WhoamiResult:
        """Get the caller and its grant: `GET /v1/whoami`."""
        return self._call("GET", "/v1/whoami", {}, {"wait": wait}, {})
