package e2e_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// gapped is a source and an importer that have no network between them: bundles of the source's namespace
// default are imported into the importer's mirror m.
type gapped struct{ low, high *running }

const trusted = "PUT /v1/namespaces/default/trusted-keys/"

func newGapped(t *testing.T) gapped {
	t.Helper()
	g := gapped{start(t, t.TempDir(), nil), start(t, t.TempDir(), nil)}
	g.high.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","source":"`+g.source()+`","depth":"full"}`)
	kid, body := g.key(t, g.low)
	g.high.must(t, http.StatusOK, trusted+kid, body)
	return g
}

func (g gapped) source() string { return g.low.at.HTTP + "/v1/namespaces/default" }

// key returns the key of a server as the importer's trusted key for the source.
func (g gapped) key(t *testing.T, s *running) (kid, body string) {
	t.Helper()
	var set struct{ Keys []bundle.JWK }
	require.NoError(t, json.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /v1/namespaces/default/bundle-keys", "").text), &set))
	require.Len(t, set.Keys, 1)
	text, err := json.Marshal(map[string]any{"jwk": set.Keys[0], "source": g.source()})
	require.NoError(t, err)
	return set.Keys[0].KeyID, string(text)
}

// exports returns a bundle, and its digest.
func (s *running) exports(t *testing.T, query string) (text, digest string) {
	t.Helper()
	r := s.must(t, http.StatusOK, "GET /v1/namespaces/default/export?scope=entries&"+query, "")
	return r.text, r.header.Get("Sluice-Bundle-Digest")
}

// imports imports a bundle that is accepted, and returns how many entries were applied, and the watermark.
func (g gapped) imports(t *testing.T, text, query string) []any {
	t.Helper()
	r := g.high.must(t, http.StatusOK, "POST /v1/namespaces/default/import"+query, text)
	return []any{r.field(t, "applied"), r.field(t, "watermark")}
}

// refuses imports a bundle that is refused with a status and a code.
func (g gapped) refuses(t *testing.T, text string, status int, code string) reply {
	t.Helper()
	r := g.high.must(t, status, "POST /v1/namespaces/default/import", text)
	require.Equal(t, code, r.field(t, "error.code"), r.text)
	return r
}

// S3-61, S3-69…73, S3-102, S3-136, S3-149.
func TestBundle_CrossesTheGap(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one", "/a two", "/b three")
	first, digest := g.low.exports(t, "since=0")
	g.low.publishes(t, "default", "/c two-b of two")
	g.low.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/b"}`)
	second, last := g.low.exports(t, "since=3&previous="+digest)

	require.Equal(t, []any{3.0, 3.0}, g.imports(t, first, ""))
	r := g.high.must(t, http.StatusOK, "POST /v1/namespaces/default/import", second)
	require.Equal(t, []any{2.0, last, g.source()}, []any{r.field(t, "applied"), r.field(t, "receipt.bundle"), r.field(t, "receipt.source_notebook_id")})
	require.Equal(t, []string{"one 1 one", "two-b 4 two-b", "three 3 gone"}, g.high.mirrorsOf(t, "default"))

	through := g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "").field(t, "watermark")
	g.low.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/c"}`)
	third, last := g.low.exports(t, fmt.Sprint("since=", through, "&previous=", last))
	require.Equal(t, []any{1.0, 6.0}, g.imports(t, third, ""))
	require.Equal(t, []string{"one 1 one", "three 3 gone", "two-b 4 gone"}, g.high.mirrorsOf(t, "default"), "a revision is erased")

	again := g.refuses(t, first, http.StatusConflict, "bundle_imported")
	require.NotEmpty(t, again.field(t, "error.details.imported_at"))

	st := g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "")
	require.Equal(t, "idle", st.field(t, "state"), "it has no token, so it is not polled")
	through = st.field(t, "watermark")
	heartbeat, _ := g.low.exports(t, fmt.Sprint("since=", through, "&previous=", last))
	require.Equal(t, []any{0.0, through}, g.imports(t, heartbeat, ""))
	g.refuses(t, heartbeat, http.StatusConflict, "bundle_imported")

	kid, _ := g.key(t, g.low)
	g.high.must(t, http.StatusNoContent, "DELETE /v1/namespaces/default/trusted-keys/"+kid, "")
	require.Equal(t, []string{"mirror.create", "mirror.import", "mirror.import", "mirror.import", "mirror.import"}, g.high.acts(t, "m"))
	require.Equal(t, []string{"trusted_key.add", "trusted_key.revoke"}, g.high.acts(t, kid))
}

// S3-73: what is missing is said, or accepted and recorded.
func TestBundle_GapIsRefusedOrRecorded(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one", "/a two", "/a three")
	missed, _ := g.low.exports(t, "since=0")
	g.low.publishes(t, "default", "/a four")
	later, _ := g.low.exports(t, "since=3")
	r := g.refuses(t, later, http.StatusConflict, "bundle_gap")
	require.Equal(t, []any{1.0, 3.0}, []any{r.field(t, "error.details.from"), r.field(t, "error.details.to")})
	require.Equal(t, []any{1.0, 4.0}, g.imports(t, later, "?accept_gap=true"))
	var st sluice.MirrorStatus
	require.NoError(t, json.Unmarshal([]byte(g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "").text), &st))
	require.Len(t, st.Gaps, 1)
	require.Equal(t, []any{uint64(1), uint64(3), sluice.GapBundle}, []any{st.Gaps[0].From, st.Gaps[0].To, st.Gaps[0].Cause})
	g.refuses(t, missed, http.StatusConflict, "bundle_gap")
}

// S3-70, S3-71.
func TestBundle_OnlyATrustedKeySpeaksForTheSource(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one")
	good, _ := g.low.exports(t, "since=0")
	g.refuses(t, strings.Replace(good, `"/a"`, `"/b"`, 1), http.StatusUnprocessableEntity, "bundle_signature_invalid")
	g.refuses(t, strings.Replace(good, `"source_notebook_name":"default"`, `"source_notebook_name":"other"`, 1), http.StatusUnprocessableEntity, "bundle_signature_invalid")

	foreign := start(t, t.TempDir(), nil)
	foreign.publishes(t, "default", "/a one")
	other, _ := foreign.exports(t, "since=0")
	g.refuses(t, other, http.StatusForbidden, "unknown_key")

	catalog := g.low.must(t, http.StatusOK, "GET /v1/namespaces/default/export?since=0", "").text
	g.refuses(t, catalog, http.StatusUnprocessableEntity, "no_matching_subscription")
	g.high.must(t, http.StatusOK, "POST /v1/subscriptions/m/suspend", "")
	g.refuses(t, good, http.StatusConflict, "mirror_suspended")
	g.high.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")

	kid, body := g.key(t, g.low)
	g.high.must(t, http.StatusUnprocessableEntity, trusted+"other", body)
	g.high.must(t, http.StatusNoContent, "DELETE /v1/namespaces/default/trusted-keys/"+kid, "")
	r := g.refuses(t, good, http.StatusForbidden, "unknown_key")
	require.Equal(t, "revoked", r.field(t, "error.details.reason"))
	g.high.must(t, http.StatusConflict, trusted+kid, body)
	var list struct{ Keys bundle.Trust }
	require.NoError(t, json.Unmarshal([]byte(g.high.must(t, http.StatusOK, "GET /v1/namespaces/default/trusted-keys", "").text), &list))
	require.Len(t, list.Keys, 1)
	require.Equal(t, []any{kid, g.source(), false}, []any{list.Keys[0].KeyID, list.Keys[0].Source, list.Keys[0].RevokedAt.IsZero()})
	require.Empty(t, g.high.mirrorsOf(t, "default"))
}

// A new key signs at once, and its bundles are imported once it is trusted; the old bundles still are.
func TestBundle_KeyIsReplaced(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one")
	first, digest := g.low.exports(t, "since=0")
	old, _ := g.key(t, g.low)
	g.low.must(t, http.StatusBadRequest, "POST /v1/keys/rotate", `{"use":"grant"}`)
	g.low.must(t, http.StatusCreated, "POST /v1/keys/rotate", `{"use":"bundle","overlap":"0s"}`)
	g.low.publishes(t, "default", "/a two")
	second, _ := g.low.exports(t, "since=1&previous="+digest)
	g.imports(t, first, "")
	g.refuses(t, second, http.StatusForbidden, "unknown_key")
	kid, body := g.key(t, g.low)
	require.NotEqual(t, old, kid)
	g.high.must(t, http.StatusOK, trusted+kid, body)
	require.Equal(t, []any{1.0, 2.0}, g.imports(t, second, ""))
}

// What a namespace trusts goes with it.
func TestBundle_TrustEndsWithItsNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	g := gapped{s, s}
	kid, body := g.key(t, s)
	s.must(t, http.StatusNotFound, "PUT /v1/namespaces/short/trusted-keys/"+kid, body)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/short", `{}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/short/trusted-keys/"+kid, body)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/short", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/short", `{}`)
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/short/trusted-keys", "").field(t, "keys"))
}

// S3-71, S3-119…124: a trusted key is no reason to store what a page of the source would not be stored of.
func TestBundle_IsCheckedAsAPage(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	_, seed, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"jwk": bundle.NewJWK(seed.Public().(ed25519.PublicKey)), "source": g.source()})
	require.NoError(t, err)
	g.high.must(t, http.StatusOK, trusted+bundle.KeyID(seed.Public().(ed25519.PublicKey)), string(text))
	made := func(change func(h *bundle.Header)) string {
		h := bundle.Header{SourceID: g.source(), Incarnation: "log", Through: 1, First: 1, ExportedAt: time.Now()}
		change(&h)
		w, err := bundle.NewDocumentWriter("entries", 0)
		require.NoError(t, err)
		require.NoError(t, w.Append(bundle.Entry{Change: sluice.Change{Op: sluice.OpWrite, Event: sluice.Event{Seq: 1, ID: "one", Path: "/a"}}}))
		text, _, err := w.Seal(h, seed)
		require.NoError(t, err)
		return string(text)
	}
	g.refuses(t, made(func(h *bundle.Header) { h.ExportedAt = time.Now().Add(time.Hour) }), http.StatusUnprocessableEntity, "unprocessable")
	g.refuses(t, made(func(h *bundle.Header) { h.SourceID += "2" }), http.StatusForbidden, "unknown_key")

	own := g.high.must(t, http.StatusOK, "GET /v1/namespaces/default/observe", "").field(t, "incarnation").(string)
	r := g.refuses(t, made(func(h *bundle.Header) { h.Passed = []sluice.Hop{{Incarnation: own, Hops: 1}} }), http.StatusConflict, "mirror_suspended")
	require.Equal(t, sluice.MirrorInCycle, r.field(t, "error.details.reason"))
	g.high.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", "")
	r = g.refuses(t, made(func(h *bundle.Header) { h.Label.Level = sluice.LevelSecret }), http.StatusConflict, "mirror_suspended")
	require.Equal(t, sluice.MirrorLabelRaised, r.field(t, "error.details.reason"))
	require.Empty(t, g.high.mirrorsOf(t, "default"))
}

// S3-43, S3-72: a bundle of several steps.
func TestBundle_LargeOneIsAppliedInSteps(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	const events = 2500
	g.low.fills(t, "default", events/500)
	text, _ := g.low.exports(t, "since=0")
	require.Equal(t, []any{float64(events), float64(events)}, g.imports(t, text, ""))
	st := g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "")
	require.Equal(t, []any{float64(events), []any{}}, []any{st.field(t, "mirrored_count"), st.field(t, "gaps")})
}

// Two bundles with one predecessor cannot both be of the chain.
func TestBundle_ForkIsRefused(t *testing.T) {
	t.Parallel()
	g := newGapped(t)
	g.low.publishes(t, "default", "/a one")
	first, digest := g.low.exports(t, "since=0")
	g.low.publishes(t, "default", "/a two")
	second, _ := g.low.exports(t, "since=1&previous="+digest)
	g.low.publishes(t, "default", "/a three")
	rival, _ := g.low.exports(t, "since=1&previous="+digest)
	g.imports(t, first, "")
	g.imports(t, second, "")
	for range 2 {
		r := g.refuses(t, rival, http.StatusConflict, "bundle_fork")
		var st sluice.MirrorStatus
		require.NoError(t, json.Unmarshal([]byte(g.high.must(t, http.StatusOK, "GET /v1/subscriptions/m/status", "").text), &st))
		require.Len(t, st.Forks, 1, "both are on record, and once")
		require.Equal(t, []any{r.field(t, "error.details.imported_digest"), uint64(1), uint64(3)}, []any{st.Forks[0].Against, st.Forks[0].Since, st.Forks[0].Through})
	}
	require.Equal(t, []string{"one 1 one", "two 2 two"}, g.high.mirrorsOf(t, "default"))
}
