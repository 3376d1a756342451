package httpapi

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// F4: every route that writes is known to add to the store, or to be needed while it is full.
func TestGrows_NamesEveryRouteThatAdds(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{
		"POST " + callbackRoute: true, "POST /v1/keys/rotate": true, "PUT /v1/namespaces/:ns": true, "POST " + live.TicketRoute: true,
		"POST /v1/grants/verify": true, "POST /v1/grants/:grant/revoke": true, "PUT /v1/principals/:principal": true,
		"PUT /v1/namespaces/:ns/acl/:principal": true, "POST /v1/namespaces/:ns/tombstones": true, "POST /v1/namespaces/:ns/watches/test": true, "POST /v1/storage/verify": true, "POST /v1/modules/:module/disable": true,
		"POST /v1/subscriptions/:id/sync": true, "POST /v1/subscriptions/:id/suspend": true, "PUT /v1/subscriptions/:id/credential": true, "POST " + mirrors.ImportRoute: true, // the copy is refused by its stream
		"POST /v1/namespaces/:ns/jobs/:job/renew": true, "POST /v1/namespaces/:ns/jobs/:job/fail": true, "POST /v1/namespaces/:ns/jobs/:job/retry": true, "POST /v1/namespaces/:ns/search": true,
		"PATCH /v1/subscriptions/:id": true, "PATCH /v1/problems/:problem": true, "POST /v1/subscriptions/:id/pause": true, "POST /v1/subscriptions/:id/resume": true,
		"POST /v1/subscriptions/:id/match": true, "POST /v1/subscriptions/:id/secret/rotate": true, "POST /v1/subscriptions/:id/seek": true, "POST /v1/subscriptions/:id/replays/:replay/cancel": true,
		"POST /v1/subscriptions/:id/deliveries/:event/discard": true,
		"POST " + dstreams.Subscription + "/claim":             true, "POST " + dstreams.Subscription + "/callback": true, "POST " + dstreams.Subscription + "/ack": true, "POST " + dstreams.Subscription + "/release": true,
	}
	seen := map[string]bool{}
	for _, r := range New(Options{Metrics: http.NotFoundHandler()}).routes() {
		name := r.Method + " " + r.Path
		seen[name] = true
		writes := r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch
		require.Equal(t, writes, grows(r) != needed[name], "%s: it adds to the store, or it does not; say which", name)
	}
	for name := range needed {
		require.True(t, seen[name], name)
	}
}

// full is a store at a level.
type full sluice.StorageLevel

func (f full) Level() sluice.StorageLevel { return sluice.StorageLevel(f) }

func (f full) Grow() error { return f.Level().Problem() }

func TestHasRoom_AsksOnlyForAdditions(t *testing.T) {
	t.Parallel()
	s := &Server{opts: Options{Store: Store{Room: full(sluice.StorageScarce)}}}
	mint, revoke := httpkit.Route{Method: http.MethodPost, Path: "/v1/grants"}, httpkit.Route{Method: http.MethodPost, Path: "/v1/grants/:grant/revoke"}
	err := s.hasRoom(mint)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.True(t, sluice.IsFull(err))
	require.NoError(t, s.hasRoom(revoke))
	require.NoError(t, (&Server{}).hasRoom(mint), "a server that knows of no bound")
	require.False(t, sluice.IsFull(sluice.Errorf(sluice.Unavailable, "away")))
	require.Equal(t, sluice.StorageScarce, s.storageLevel())
}
