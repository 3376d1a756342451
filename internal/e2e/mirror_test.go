package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// low is a namespace to mirror, and high one whose label dominates it.
func mirrorable(t *testing.T, s *running) {
	t.Helper()
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{"label":{"level":"INTERNAL","compartments":["a"]}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high", `{"label":{"level":"SECRET","compartments":["a","b"]}}`)
}

// publishes stores events in a namespace; each is "path id", with "of" and an id if it revises that one.
func (s *running) publishes(t *testing.T, ns string, events ...string) {
	t.Helper()
	for _, line := range events {
		var path, id, of string
		_, _ = fmt.Sscan(line, &path, &id, &of, &of)
		ev := map[string]any{"path": path, "id": id, "type": "t", "data": map[string]string{"text": id}}
		if of != "" {
			ev["specversion"], ev["source"], ev["revisionof"] = "1.0", "/s", of
		}
		body, err := json.Marshal(ev)
		require.NoError(t, err)
		s.must(t, http.StatusCreated, "POST /v1/namespaces/"+ns+"/events", string(body))
	}
}

// mirrorsOf returns the entries of the mirrors of a namespace, as "id seq text", with "gone" for tombstones.
func (s *running) mirrorsOf(t *testing.T, ns string) (all []string) {
	t.Helper()
	for after := ""; ; {
		r := s.must(t, http.StatusOK, "GET /v1/namespaces/"+ns+"/items?source=mirrored&limit=2&after="+after, "")
		var page struct {
			Items []struct {
				ID, Source string
				Mirror     string    `json:"subscription_id"`
				MirroredAt time.Time `json:"mirrored_at"`
				Label      struct{ Level string }
				Seq        uint64
				RevisionOf string `json:"revision_of"`
				Tombstoned bool
				Data       struct{ Text string }
			}
			NextCursor string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.text), &page))
		for _, item := range page.Items {
			require.Equal(t, "mirrored", item.Source)
			require.Equal(t, "m", item.Mirror, "S3-33")
			require.NotZero(t, item.MirroredAt, "S3-26")
			if ns == "high" {
				require.NotEqual(t, "INTERNAL", item.Label.Level, "S3-139: that of the subscriber")
			}
			text := item.Data.Text
			if item.Tombstoned {
				text = "gone"
			}
			all = append(all, fmt.Sprint(item.ID, " ", item.Seq, " ", text))
		}
		if after = page.NextCursor; after == "" {
			return all
		}
	}
}

// syncs syncs the mirror m and returns its status.
func (s *running) syncs(t *testing.T) reply {
	t.Helper()
	return s.must(t, http.StatusOK, "POST /v1/subscriptions/m/sync?wait=30s", "")
}

// S3-03…13, S3-31, S3-35, S3-40…49, S3-57…60, S3-98…101, S3-117, S3-126.
func TestMirror_FollowsANamespaceOfTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a/1 one", "/b/1 other", "/a/2 two")
	r := s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full","path_prefix":"/a"}`)
	require.Equal(t, []any{"1m0s", 0.3, "root", "active"}, []any{r.field(t, "poll_interval"), r.field(t, "weight"), r.field(t, "approved_by"), r.field(t, "state")})
	st := s.syncs(t)
	require.Equal(t, []any{"idle", 3.0, 3.0, 0.0, 2.0, []any{}}, []any{
		st.field(t, "state"), st.field(t, "watermark"), st.field(t, "source_seq"), st.field(t, "lag_items"), st.field(t, "mirrored_count"), st.field(t, "gaps"),
	})
	require.Equal(t, []string{"one 1 one", "two 3 two"}, s.mirrorsOf(t, "high"))
	require.NotNil(t, st.field(t, "last_sync_at"), "S3-08, S3-129")
	listed, ok := s.must(t, http.StatusOK, "GET /v1/subscriptions?mode=mirror&namespace=high", "").field(t, "subscriptions").([]any)
	require.True(t, ok)
	require.Len(t, listed, 1)
	require.Contains(t, listed[0], "status", "S3-99")
	require.Contains(t, listed[0], "created_at", "S3-15")

	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"path":"/c","id":"raw","data":{ "a" : "<1>" }}`)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/low/items?path_prefix=/c", "").text, `"data":{ "a" : "<1>" }`, "byte for byte")
	s.publishes(t, "low", "/a/1 one-b of one")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/a/2"}`)
	s.syncs(t)
	require.Equal(t, []string{"one-b 5 one-b", "two 3 gone"}, s.mirrorsOf(t, "high"))

	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/high/observe", "").field(t, "items"), "S3-117, S3-122")
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/high/events?pattern=/a/**", "").field(t, "events"), "S3-31")
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/high/items", "").field(t, "items"), "S3-35")

	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	require.Empty(t, s.mirrorsOf(t, "high"))
	s.must(t, http.StatusNotFound, "GET /v1/subscriptions/m/status", "")
}

// An event without an id keeps its entry in a mirror: no other event takes the id that it has been given.
func TestMirror_KeepsEventsThatWereGivenTheirIDs(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	for _, header := range []nats.Header{nil, {"ce-id": {"_low-1"}}} {
		_, err := dial(t, s.at.NATS).PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).Subject("low", "/a/1"), Header: header, Data: []byte(`{"text":"by NATS"}`)})
		require.NoError(t, err)
	}
	s.must(t, http.StatusBadRequest, "POST /v1/namespaces/low/events", `{"id":"_low-1","path":"/evil/1","data":{"text":"evil"}}`)
	s.publishes(t, "high", "/a/1 _low-1")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full","path_prefix":"/a"}`)
	s.syncs(t)
	require.Equal(t, []string{"_low-1 1 by NATS", "_low-2 2 by NATS"}, s.mirrorsOf(t, "high"))
}

// Only a publisher with the right to an original, and the clearance for it, replaces its entry in mirrors.
func TestMirror_RevisionNeedsBothRights(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:eve", `{"clearance":{"level":"INTERNAL","compartments":["a"]}}`)
	s.publishes(t, "low", "/payroll/1 pay-1", "/team/1 team-1")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/events", `{"specversion":"1.0","source":"/s","type":"t","id":"team-2","path":"/team/2","dataclassification":"SECRET/a","data":{"text":"hidden"}}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	want := []string{"pay-1 1 pay-1", "team-1 2 team-1", "team-2 3 hidden"}
	require.Equal(t, want, s.mirrorsOf(t, "high"))

	eve := as(s.grant(t, "user:eve", "path:low/team/**", "publish").token)
	publish := func(status int, id, rest string) reply {
		one := `{"specversion":"1.0","source":"/s","type":"t","path":"/team/9","data":{"text":"new"},"id":"` + id + `"` + rest + "}"
		return s.must(t, status, "POST /v1/namespaces/low/events", one, append(eve, "Content-Type", "application/cloudevents+json")...)
	}
	for _, of := range []string{"pay-1", "team-2", "unknown"} {
		r := publish(http.StatusForbidden, "e", `,"revisionof":"`+of+`"`)
		require.Equal(t, fmt.Sprintf("revisionof: the event %q is unknown, or you may not revise it", of), r.field(t, "error.message"))
		publish(http.StatusForbidden, "e", `,"deliverat":"2100-01-01T00:00:00Z","revisionof":"`+of+`"`)
	}
	s.syncs(t)
	require.Equal(t, want, s.mirrorsOf(t, "high"))
	publish(http.StatusCreated, "team-1-b", `,"revisionof":"team-1"`)
	s.syncs(t)
	require.Equal(t, []string{want[0], want[2], "team-1-b 4 new"}, s.mirrorsOf(t, "high"))
	s.publishes(t, "low", "/team/1 pay-1-b of pay-1")
	s.syncs(t)
	require.Equal(t, []string{want[2], "team-1-b 4 new", "pay-1-b 5 pay-1-b"}, s.mirrorsOf(t, "high"), "root may move it")
}

// A namespace has as many mirrors as its limit; a deleted one makes room.
func TestMirror_NumberIsLimited(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Mirrors.PerNamespace = 1 })
	mirrorable(t, s)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/lower", `{}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low"}`)
	r := s.must(t, http.StatusTooManyRequests, "POST /v1/subscriptions", `{"id":"n","mode":"mirror","namespace":"high","source":"lower"}`)
	require.Equal(t, "quota_exceeded", r.field(t, "error.code"))
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"o","mode":"mirror","namespace":"low","source":"lower"}`)
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/m", "")
	eventually(t, func() bool {
		return s.call(t, "POST /v1/subscriptions", `{"id":"n","mode":"mirror","namespace":"high","source":"lower"}`).status == http.StatusCreated
	}, "there is room again")
}

// S3-103…108, S3-119…121: what may not be created is not.
func TestMirror_IsRefusedForItsReason(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/top", `{"label":{"level":"TOP_SECRET","compartments":["a","b"]}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high2", `{"label":{"level":"SECRET","compartments":["a","b"]}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high3", `{"label":{"level":"SECRET","compartments":["a","b"]}}`)
	wish := func(namespace, source string, more string) reply {
		return s.call(t, "POST /v1/subscriptions", `{"mode":"mirror","namespace":"`+namespace+`","source":"`+source+`"`+more+`}`)
	}
	require.Equal(t, http.StatusCreated, wish("high", "low", "").status)
	require.Equal(t, http.StatusCreated, wish("high2", "high", "").status)
	require.Equal(t, http.StatusCreated, wish("high3", "high2", "").status)
	for name, c := range map[string]struct {
		r      reply
		status int
		code   string
	}{
		"itself":                {wish("high", "high", ""), 409, "conflict"},
		"no such source":        {wish("high", "nothing", ""), 404, "not_found"},
		"a higher level":        {wish("high", "top", ""), 403, "forbidden"},
		"a compartment":         {wish("low", "high", ""), 403, "forbidden"},
		"the pair again":        {wish("high", "low", ""), 409, "subscription_exists"},
		"a cycle of two":        {wish("high", "high2", ""), 409, "mirror_cycle"},
		"a cycle of three":      {wish("high", "high3", ""), 409, "mirror_cycle"},
		"a short interval":      {wish("top", "low", `,"poll_interval":"9s"`), 422, "unprocessable"},
		"no weight":             {wish("top", "low", `,"weight":0`), 422, "unprocessable"},
		"too much weight":       {wish("top", "low", `,"weight":1.5`), 422, "unprocessable"},
		"an unknown depth":      {wish("top", "low", `,"depth":"all"`), 400, "invalid_request"},
		"an unknown field":      {wish("top", "low", `,"pattern":"/**"`), 400, "invalid_request"},
		"a needless token":      {wish("top", "low", `,"credential":"x"`), 400, "invalid_request"},
		"an address inside":     {wish("top", "https://169.254.169.254/v1/namespaces/low", `,"credential":"x"`), 422, "blocked_address"},
		"a URL of something":    {wish("top", "https://example.com/low", ""), 400, "invalid_request"},
		"a login in the URL":    {wish("top", "https://a:b@example.com/v1/namespaces/low", ""), 400, "invalid_request"},
		"an id that is taken":   {s.call(t, "PUT /v1/subscriptions/x", `{"mode":"mirror","namespace":"top","source":"low","id":"y"}`), 400, "invalid_request"},
		"a namespace of no one": {wish("nothing", "low", ""), 404, "not_found"},
	} {
		require.Equal(t, []any{c.status, c.code}, []any{c.r.status, c.r.field(t, "error.code")}, "%s: %s", name, c.r.text)
	}
}

// S3-108, S3-119: of mirrors in both directions that are created at the same moment, one stays.
func TestMirror_BothWaysAtOnceIsOne(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for round := range 10 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		for _, ns := range []string{a, b} {
			s.must(t, http.StatusCreated, "PUT /v1/namespaces/"+ns, `{}`)
		}
		answers := make(chan error, 2)
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			go func() {
				_, err := s.api.CreateMirror(t.Context(), client.MirrorSpec{Namespace: pair[0], Source: pair[1]})
				answers <- err
			}()
		}
		codes := []sluice.Code{sluice.CodeOf(<-answers), sluice.CodeOf(<-answers)}
		require.ElementsMatch(t, []sluice.Code{"", sluice.MirrorCycle}, codes)
	}
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"a0","source":"https://example.com/v1/namespaces/x"}`)
	require.Equal(t, "subscription_conflict", s.must(t, http.StatusConflict, "PUT /v1/subscriptions/m", `{"mode":"mirror","namespace":"a1","source":"https://example.com/v1/namespaces/x"}`).field(t, "error.code"))
}

// Subscriptions and mirrors share their IDs: a request for one reaches no other.
func TestMirror_HasItsIDAlone(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	const push, mirror = `{"pattern":"/a","endpoint":{"url":"http://127.0.0.1:9/"}}`, `{"mode":"mirror","namespace":"high","source":"low"}`
	differs := func(line, body string) {
		t.Helper()
		require.Equal(t, "subscription_conflict", s.must(t, http.StatusConflict, line, body).field(t, "error.code"))
	}
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/p", push)
	differs("PUT /v1/subscriptions/p", mirror)
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/m", mirror)
	differs("PUT /v1/subscriptions/m", push)
	differs("POST /v1/subscriptions", `{"id":"m",`+push[1:])
	hook := agreeing(t, http.StatusOK, "*", "")
	differs("PUT /v1/subscriptions/m", `{"pattern":"/a","endpoint":{"handshake":true,"url":"`+hook.URL+`"}}`)
	require.Empty(t, hook.Requests(), "the endpoint is not asked in vain")
	trial := s.must(t, http.StatusOK, "POST /v1/subscriptions/batch?dry_run=true", `[{"id":"m",`+push[1:]+`]`)
	require.Contains(t, trial.text, `"code":"subscription_conflict"`)
	for _, one := range [][2]string{{"m", push}, {"p", mirror}} {
		s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/"+one[0], "")
		eventually(t, func() bool { return s.call(t, "PUT /v1/subscriptions/"+one[0], one[1]).status == http.StatusCreated }, "the ID is free again")
	}
}

// S3-54, S3-109, C14: the caller is an admin of the subscriber that may read the whole source. To others, mirrors do not exist.
func TestMirror_IsTheAdminsOfItsNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	for _, who := range []string{"user:ann", "user:bob"} {
		s.must(t, http.StatusOK, "PUT /v1/principals/"+who, `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	}
	body := `{"id":"m","mode":"mirror","namespace":"high","source":"low"}`
	reader, admin := s.grant(t, "user:ann", "scope:high", "read subscribe"), s.grant(t, "user:bob", "scope:high", "admin")
	require.Equal(t, "capability_required", s.must(t, http.StatusForbidden, "POST /v1/subscriptions", body, as(reader.token)...).field(t, "error.code"))
	s.must(t, http.StatusNotFound, "POST /v1/subscriptions", body, as(admin.token)...) // it may not know the source
	both := s.grant(t, "user:bob", "*", "admin")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", body, as(both.token)...)
	for _, line := range []string{"GET /v1/subscriptions/m", "GET /v1/subscriptions/m/status", "DELETE /v1/subscriptions/m", "POST /v1/subscriptions/m/suspend"} {
		s.must(t, http.StatusNotFound, line, "", as(reader.token)...)
	}
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/subscriptions?mode=mirror", "", as(reader.token)...).field(t, "subscriptions"))

	s.must(t, http.StatusOK, "POST /v1/grants/"+both.id+"/revoke", "")
	s.publishes(t, "low", "/a one")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/sync?wait=30s", "")
	require.Equal(t, "access_revoked", s.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "").field(t, "reason"))
	require.Empty(t, s.mirrorsOf(t, "high"))
}

// S3-128: the rights of the principal that resumed a mirror count, and no longer those of its creator.
func TestMirror_IsItsApproversAfterResume(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:bob", `{"clearance":{"level":"SECRET","compartments":["a","b"]}}`)
	bob := s.grant(t, "user:bob", "*", "admin")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`, as(bob.token)...)
	s.publishes(t, "low", "/a one")
	s.syncs(t)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/suspend", "")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")
	s.must(t, http.StatusOK, "POST /v1/grants/"+bob.id+"/revoke", "")
	s.publishes(t, "low", "/a two")
	st := s.syncs(t)
	require.Equal(t, "idle", st.field(t, "state"), st.text)
	require.Equal(t, []string{"one 1 one", "two 2 two"}, s.mirrorsOf(t, "high"))
}

// S3-124…128, S3-145: a label that is raised suspends before anything more is read; resume validates again.
func TestMirror_IsSuspendedByALabel(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a one")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/low", `{"label":{"level":"TOP_SECRET"}}`)
	s.publishes(t, "low", "/a two")
	st := s.syncs(t)
	require.Equal(t, []any{"suspended", "label_raised"}, []any{st.field(t, "state"), st.field(t, "reason")})
	require.Contains(t, st.field(t, "explanation"), "the label of low changed from INTERNAL/a to TOP_SECRET after sequence 1; that of high (SECRET/a,b) does not dominate it")
	require.Equal(t, []string{"one 1 one"}, s.mirrorsOf(t, "high"), "S3-126")
	require.Equal(t, "mirror_suspended", s.must(t, http.StatusConflict, "POST /v1/subscriptions/m/sync", "").field(t, "error.code"))
	require.Equal(t, "forbidden", s.must(t, http.StatusForbidden, "POST /v1/subscriptions/m/resume", "").field(t, "error.code"))
	s.must(t, http.StatusOK, "PUT /v1/namespaces/high", `{"label":{"level":"TOP_SECRET","compartments":["a"]}}`)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")
	s.syncs(t)
	require.Equal(t, []string{"one 1 one", "two 2 two"}, s.mirrorsOf(t, "high"))
	kinds := func() (kinds []any) {
		for _, e := range s.typesOn(t, "high", "/_sys/subscriptions/m") {
			kinds = append(kinds, e)
		}
		return kinds
	}
	require.Eventually(t, func() bool { return len(kinds()) == 3 }, time.Minute, 10*time.Millisecond, "S3-127")
	require.Equal(t, []any{"mirror.created", "mirror.suspended", "mirror.resumed"}, kinds())
}

// typesOn returns the types of the events on a path.
func (s *running) typesOn(t *testing.T, ns, path string) (types []string) {
	t.Helper()
	var page struct{ Events []struct{ Type string } }
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/namespaces/"+ns+"/events?pattern="+path, "").text), &page))
	for _, e := range page.Events {
		types = append(types, e.Type)
	}
	return types
}

// S3-03, S3-41, S3-51, S3-52, S3-142…145: another server's namespace is pulled with a token that may only read.
func TestMirror_FollowsAnotherServer(t *testing.T) {
	t.Parallel()
	low, high := start(t, t.TempDir(), nil), start(t, t.TempDir(), nil)
	low.publishes(t, "default", "/a one", "/a two")
	reader, writer := low.grant(t, "service:mirror", "scope:default", "read"), low.grant(t, "service:mirror", "scope:default", "read publish")
	body := func(token string) string {
		return `{"id":"m","mode":"mirror","source":"` + low.at.HTTP + `/v1/namespaces/default","depth":"entries","credential":"` + token + `"}`
	}
	require.Equal(t, "forbidden", high.must(t, http.StatusForbidden, "POST /v1/subscriptions", body(writer.token)).field(t, "error.code"))
	r := high.must(t, http.StatusCreated, "POST /v1/subscriptions", body(reader.token))
	require.NotContains(t, r.text, reader.token)
	high.syncs(t)
	require.Equal(t, []string{"one 1 one", "two 2 two"}, high.mirrorsOf(t, "default"))

	low.must(t, http.StatusOK, "POST /v1/grants/"+reader.id+"/revoke", "")
	require.Equal(t, http.StatusUnauthorized, high.call(t, "POST /v1/subscriptions/m/sync?wait=30s", "").status)
	st := high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "")
	require.Equal(t, "error", st.field(t, "state"))
	require.Contains(t, st.field(t, "error"), "401")
	next := low.grant(t, "service:mirror", "scope:default", "read")
	high.must(t, http.StatusOK, "PUT /v1/subscriptions/m/credential", `{"credential":"`+next.token+`"}`)
	low.publishes(t, "default", "/a three")
	high.syncs(t)
	require.Len(t, high.mirrorsOf(t, "default"), 3)
	eventually(t, func() bool {
		kinds := high.typesOn(t, "default", "/_sys/subscriptions/m")
		failing := slices.Index(kinds, "mirror.failing") // mirror.updated may come anywhere behind it
		return failing >= 0 && slices.Contains(kinds[failing:], "mirror.recovered")
	}, "the turn to failure, and the one back")

	// A cycle between servers is noticed when the first page is read.
	back := high.grant(t, "service:mirror", "scope:default", "read")
	low.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"back","mode":"mirror","source":"`+high.at.HTTP+`/v1/namespaces/default","credential":"`+back.token+`"}`)
	require.Eventually(t, func() bool {
		return low.must(t, http.StatusOK, "GET /v1/subscriptions/back/status", "").field(t, "reason") == "mirror_cycle"
	}, time.Minute, 10*time.Millisecond)
}
