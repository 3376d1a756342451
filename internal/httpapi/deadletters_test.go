package httpapi_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// bury gives an event up for a subscription; change may be nil.
func (b *bench) bury(t *testing.T, sub string, seq uint64, change func(*sluice.DeadLetter)) {
	t.Helper()
	d := sluice.DeadLetter{
		Subscription: sub, Namespace: "default", EventID: fmt.Sprintf("e/%d", seq), Seq: seq, Path: "/a", Attempts: 2, Reason: sluice.Exhausted,
		LastError: "status 500", LastStatus: 500, FirstFailedAt: time.Now().Add(-time.Minute), At: time.Now().UTC(),
	}
	d.Event = &sluice.Event{Namespace: "default", Seq: seq, ID: d.EventID, Path: "/a", Type: "t", Source: "/s", Data: []byte(`{"a":  "<&>"}`)}
	if change != nil {
		change(&d)
	}
	require.NoError(t, b.attempts.Bury(t.Context(), d))
}

func lost(d *sluice.DeadLetter) {
	d.EventID, d.Path, d.Event, d.Reason, d.LastSeq, d.Attempts = "", "", nil, sluice.Expired, d.Seq+3, 0
}

// S4-53, S4-84…87, C07: dead letters are listed, looked at with their attempts, and discarded.
func TestDeadLetters_AreListedShownAndDiscarded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	letters := "/v1/subscriptions/" + id + "/dead-letters"
	empty := b.must(t, http.StatusOK, "GET "+letters, "")
	require.JSONEq(t, `{"dead_letters":[],"next_cursor":"","total":0}`, empty.text)

	b.bury(t, id, 1, nil)
	b.bury(t, id, 2, func(d *sluice.DeadLetter) { d.Reason, d.Path, d.EventID = sluice.NotSendable, "/b/c", "redrive" })
	b.bury(t, id, 3, lost)
	stored := make(chan error, 1)
	b.attempts.Record(&sluice.Attempt{Subscription: id, EventID: "e/1", Seq: 1, Number: 2, StartedAt: time.Now(), Outcome: sluice.Failed, Status: 500}, "default",
		func(err error) { stored <- err })
	require.NoError(t, <-stored)

	page := b.must(t, http.StatusOK, "GET "+letters+"?limit=2", "")
	require.InDelta(t, 3, page.body["total"], 0)
	list := page.list(t, "dead_letters")
	require.Equal(t, []any{"", 3.0, 6.0, "expired", false}, []any{list[0]["event_id"], list[0]["seq"], list[0]["last_seq"], list[0]["reason"], list[0]["redrivable"]})
	require.Equal(t, []any{"redrive", "refused", true, nil}, []any{list[1]["event_id"], list[1]["reason"], list[1]["redrivable"], list[1]["event"]})
	rest := b.must(t, http.StatusOK, fmt.Sprintf("GET %s?limit=2&cursor=%s", letters, page.body["next_cursor"]), "")
	require.Len(t, rest.list(t, "dead_letters"), 1)
	require.Empty(t, rest.body["next_cursor"])
	for query, want := range map[string]int{
		"reason=exhausted": 1, "path=/b/**": 1, "path=/a": 1, "since=2020-01-02T15:04:05Z": 3, "since=2120-01-02T15:04:05Z": 0,
	} {
		require.Len(t, b.must(t, http.StatusOK, "GET "+letters+"?"+query, "").list(t, "dead_letters"), want, query)
	}

	one := b.must(t, http.StatusOK, "GET "+letters+"/e%2F1", "")
	require.Equal(t, []any{2.0, "status 500", 500.0, "exhausted"}, []any{one.body["attempts"], one.body["last_error"], one.body["last_status"], one.body["reason"]})
	require.Contains(t, one.text, `"data":{"a":  "<&>"}`, "byte for byte")
	require.Len(t, one.list(t, "history"), 1)
	b.must(t, http.StatusOK, "GET "+letters+"/redrive", "")
	require.Equal(t, "expired", b.must(t, http.StatusOK, "GET "+letters+"/3", "").body["reason"])

	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F1", "")
	require.Equal(t, "not_found", b.must(t, http.StatusNotFound, "DELETE "+letters+"/e%2F1", "").code())
	require.Equal(t, "not_found", b.must(t, http.StatusNotFound, "GET "+letters+"/e%2F1", "").code())
	b.must(t, http.StatusBadRequest, "DELETE "+letters, "")
	b.must(t, http.StatusBadRequest, "DELETE "+letters+"?all=yes", "")
	require.InDelta(t, 2, b.must(t, http.StatusOK, "GET "+letters, "").body["total"], 0)
	b.must(t, http.StatusNoContent, "DELETE "+letters+"?all=true", "")
	require.InDelta(t, 0, b.must(t, http.StatusOK, "GET "+letters, "").body["total"], 0)
}

func TestDeadLetters_RefuseInvalidRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	letters := "/v1/subscriptions/" + id + "/dead-letters"
	for _, line := range []string{
		"GET " + letters + "?reason=bored", "GET " + letters + "?path=a", "GET " + letters + "?since=yesterday", "GET " + letters + "?limit=1001",
		"GET " + letters + "?cursor=x", "GET " + letters + "?order=up",
	} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, line, "").code(), line)
	}
	for _, body := range []string{``, `{}`, `{"ids":[]}`, `{"ids":["a"],"all":true}`, `{"all":true,"rate":{"per_second":-1}}`, `{"every":true}`} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, "POST "+letters+"/redrive", body).code(), body)
	}
	for rate, field := range map[string]string{`{"per_second":-1}`: "rate.per_second", `{"per_minute":-1}`: "rate.per_minute", `{"key":"k"}`: "rate.key"} {
		a := b.must(t, http.StatusBadRequest, "POST "+letters+"/redrive", `{"all":true,"rate":`+rate+`}`)
		require.Contains(t, a.text, `"field":"`+field+`"`)
	}
	for _, line := range []string{"GET %s", "GET %s/e", "DELETE %s/e", "DELETE %s?all=true"} {
		line = fmt.Sprintf(line, "/v1/subscriptions/none/dead-letters")
		require.Equal(t, "subscription_not_found", b.must(t, http.StatusNotFound, line, "").code(), line)
	}
}

// grantee makes the API on the bench know grants, and returns the header of a token with the verbs
// for the namespace default.
func (b *bench) grantee(t *testing.T, opts httpapi.Options, verbs ...sluice.Verb) []string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	now := time.Now()
	g := sluice.Grant{ID: "g", Principal: "user:ann", Verbs: verbs, Object: sluice.Object{Namespace: sluice.DefaultNamespace}, IssuedBy: sluice.Root, IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
	text, err := authz.Sign(&g, "00", "k", key)
	require.NoError(t, err)
	if opts.Access == nil {
		opts.Access = authz.NewIndex()
	}
	opts.Access.Set(streams.GrantKey(g.ID), authz.Record{Grant: &authz.Granted{Grant: g, Nonce: authz.HashNonce("00")}}, 1)
	opts.Access.CaughtUp()
	opts.Authority = grants.New(grants.Deps{Index: opts.Access, Now: time.Now, Keys: func(context.Context) ([]grants.Key, error) {
		return []grants.Key{{ID: "k", Private: key}}, nil
	}})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	return []string{"Authorization", "Bearer " + text}
}

// S0-56, C14: the dead letter of an event above the clearance of an admin looks missing to it: it is not shown,
// not discarded, and not redriven by its ID.
func TestDeadLetters_ConcealHiddenEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	letters := "/v1/subscriptions/" + id + "/dead-letters"
	b.bury(t, id, 1, nil)
	b.bury(t, id, 2, func(d *sluice.DeadLetter) {
		d.Event.Extensions = map[string]string{sluice.AttributeClassification: string(sluice.LevelSecret)}
	})
	opts := b.options()
	opts.Replays = started(func(want sluice.Replay) (sluice.Replay, error) { return want, nil })
	ann := b.grantee(t, opts, sluice.VerbAdmin, sluice.VerbSubscribe)
	b.must(t, http.StatusOK, "GET "+letters+"/e%2F1", "", ann...)
	for _, line := range []string{"GET " + letters + "/e%2F2", "DELETE " + letters + "/e%2F2"} {
		require.Equal(t, "not_found", b.must(t, http.StatusNotFound, line, "", ann...).code(), line)
	}
	for _, ids := range []string{`["e/1","e/2"]`, `["none"]`} {
		require.Equal(t, "not_found", b.must(t, http.StatusNotFound, "POST "+letters+"/redrive", `{"ids":`+ids+`}`, ann...).code(), ids)
	}
	b.must(t, http.StatusAccepted, "POST "+letters+"/redrive", `{"ids":["e/1"]}`, ann...)
	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F1", "", ann...)
	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F2", "")
}

// S0-56, S4-90: of an event that left the log before it was read again, no label is known, so that only root gets the
// responses of its attempts, which may repeat it. An erased one looks missing.
func TestDeadLetters_UnreadEventHasNoResponses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	letter := "GET /v1/subscriptions/" + id + "/dead-letters/e%2F1"
	b.bury(t, id, 1, func(d *sluice.DeadLetter) { d.Event, d.Reason = nil, sluice.Expired })
	stored := make(chan error, 1)
	b.attempts.Record(&sluice.Attempt{Subscription: id, EventID: "e/1", Seq: 1, Number: 1, StartedAt: time.Now(), Outcome: sluice.Failed, Status: 500, Response: "echo"}, "default",
		func(err error) { stored <- err })
	require.NoError(t, <-stored)
	opts := b.options()
	opts.Access = authz.NewIndex()
	ann := b.grantee(t, opts, sluice.VerbAdmin, sluice.VerbSubscribe)
	require.Equal(t, "echo", b.must(t, http.StatusOK, letter, "").list(t, "history")[0]["response"])
	require.NotContains(t, b.must(t, http.StatusOK, letter, "", ann...).list(t, "history")[0], "response")
	opts.Access.Set(streams.TombstoneKey("default", "/a"), authz.Record{Tombstone: &sluice.Tombstone{Namespace: "default", Path: "/a", UpTo: 1}}, 2)
	require.Equal(t, "not_found", b.must(t, http.StatusNotFound, letter, "", ann...).code())
}

// S0-56, S4-53: the dead letter of an erased event is shown to none, not to root either, and cannot be redriven. It
// can be discarded by its name, unless the event is hidden from the caller.
func TestDeadLetters_OfErasedEventsAreDiscarded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	letters := "/v1/subscriptions/" + id + "/dead-letters"
	for seq := range uint64(4) {
		b.bury(t, id, seq+1, nil)
	}
	b.bury(t, id, 3, func(d *sluice.DeadLetter) {
		d.Event.Extensions = map[string]string{sluice.AttributeClassification: string(sluice.LevelSecret)}
	})
	opts := b.options()
	opts.Access = authz.NewIndex()
	ann := b.grantee(t, opts, sluice.VerbAdmin, sluice.VerbSubscribe)
	opts.Access.Set(streams.TombstoneKey("default", "/a"), authz.Record{Tombstone: &sluice.Tombstone{Namespace: "default", Path: "/a", UpTo: 3}}, 2)
	redrivable := map[any]any{}
	for _, d := range b.must(t, http.StatusOK, "GET "+letters, "").list(t, "dead_letters") {
		redrivable[d["event_id"]] = d["redrivable"]
	}
	require.Equal(t, map[any]any{"e/1": false, "e/2": false, "e/3": false, "e/4": true}, redrivable)
	b.must(t, http.StatusNotFound, "GET "+letters+"/e%2F1", "")

	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F1", "")
	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F2", "", ann...)
	b.must(t, http.StatusNotFound, "DELETE "+letters+"/e%2F3", "", ann...)
	b.must(t, http.StatusNoContent, "DELETE "+letters+"/e%2F3", "")
	require.InDelta(t, 1, b.must(t, http.StatusOK, "GET "+letters, "").body["total"], 0)
}

// started is what starts replays, and only says that it did.
type started func(sluice.Replay) (sluice.Replay, error)

func (s started) Start(_ context.Context, _ *sluice.Subscription, want sluice.Replay) (sluice.Replay, error) {
	return s(want)
}

// S4-53, C07: a redrive is a replay of the dead letters that there are when it is asked for; those
// that cannot be sent are said to be left out.
func TestRedrive_ReplaysDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.subscription(t, hook)
	redrive := "POST /v1/subscriptions/" + id + "/dead-letters/redrive"
	require.Equal(t, "conflict", b.must(t, http.StatusConflict, redrive, `{"all":true}`).code(), "there is none")
	b.bury(t, id, 1, nil)
	b.bury(t, id, 2, lost)
	b.bury(t, id, 3, func(d *sluice.DeadLetter) { d.Reason = sluice.Malformed })
	b.bury(t, id, 4, nil)
	require.Equal(t, "unavailable", b.must(t, http.StatusServiceUnavailable, redrive, `{"all":true}`).code(), "no replica replays")

	var got sluice.Replay
	opts := b.options()
	opts.Replays = started(func(want sluice.Replay) (sluice.Replay, error) {
		got, want.ID, want.State = want, "r1", sluice.ReplayRunning
		return want, nil
	})
	server := httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(server.Close)
	b.http = server

	a := b.must(t, http.StatusAccepted, redrive, `{"all":true,"rate":{"per_second":5}}`)
	require.Equal(t, sluice.Replay{Kind: sluice.ReplayDeadLetters, From: 1, To: 4, Rate: sluice.Rate{PerSecond: 5}, Total: 2, CreatedBy: "root"}, got)
	require.Equal(t, []any{"r1", "running", "dead_letters", 2.0}, []any{a.body["id"], a.body["state"], a.body["kind"], a.body["skipped"]})
	require.Contains(t, a.body["message"], "2 without a sendable event")

	a = b.must(t, http.StatusAccepted, redrive, `{"ids":["e/4","e/1","e/4"]}`)
	require.Equal(t, []string{"e/1", "e/4"}, got.EventIDs)
	require.InDelta(t, 0, a.body["skipped"], 0)
	require.Nil(t, a.body["message"])
	a = b.must(t, http.StatusAccepted, redrive, `{"ids":["e/1","e/3"]}`)
	require.Equal(t, []string{"e/1"}, got.EventIDs)
	require.InDelta(t, 1, a.body["skipped"], 0)

	got = sluice.Replay{}
	a = b.must(t, http.StatusConflict, redrive, `{"ids":["2","e/3"]}`)
	require.Contains(t, a.text, "2 without a sendable event")
	a = b.must(t, http.StatusNotFound, redrive, `{"ids":["e/1","nobody"]}`)
	details, err := json.Marshal(a.body["error"].(map[string]any)["details"])
	require.NoError(t, err)
	require.JSONEq(t, `{"missing":["nobody"]}`, string(details))
	require.Zero(t, got, "nothing was started")
}
