package mirror_test

import (
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/mirror/remote"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const onePage = `{"incarnation":"i","first_seq":1,"last_seq":1,"through_seq":1,"items":[{"op":"write","seq":1,"id":"a","path":"/a/1","data":1}]}`

// certified returns a server over TLS, with a certificate for 127.0.0.1 that ends at a time.
func certified(t *testing.T, end time.Time) *httptest.Server {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// serving returns a server that answers each request in a way.
func serving(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// outside is the sources of other servers, through the sender of the product. Their tokens are taken as they are.
type outside struct{ remote.Source }

func (outside) CheckCredential(context.Context, *sluice.Mirror, string) error { return nil }

// follow creates a mirror of another server, syncs it once, and returns its status.
func follow(t *testing.T, f *fleet, id, source string) (sluice.MirrorStatus, error) {
	t.Helper()
	keeper := f.engines[0].Keeper()
	m := sluice.Mirror{ID: id, Namespace: "high", Source: source + "/v1/namespaces/low", Depth: sluice.DepthFull, Credential: "cap_x", PollInterval: sluice.MinPollInterval, Weight: 1}
	m, err := keeper.Create(t.Context(), m, root)
	require.NoError(t, err)
	failed := keeper.Sync(t.Context(), id)
	var st sluice.MirrorStatus
	require.Eventually(t, func() bool { // the engine may sync it, too, or be about to
		m, err = keeper.Get(t.Context(), id)
		require.NoError(t, err)
		st, err = keeper.Status(t.Context(), &m)
		require.NoError(t, err)
		return st.State != sluice.SyncSyncing && st.NextSyncAt != nil && st.NextSyncAt.After(time.Now())
	}, time.Minute, time.Millisecond)
	return st, failed
}

// newOutside returns a fleet whose mirrors follow other servers, and the names that they know.
func newOutside(t *testing.T, opts endpoint.Options) *fleet {
	t.Helper()
	sender := endpoint.New(opts)
	t.Cleanup(sender.Close)
	f := newFleet(t)
	f.outside = outside{remote.Source{Fetcher: sender}}
	f.stops[0]()
	f.start(t, 0)
	f.owners.set([2]bool{true, false})
	newSource(t, f, rand.New(rand.NewPCG(1, 4)), "high")
	return f
}

// S3-50: the state of a mirror says what is wrong with the way to its source, or with its response.
func TestSync_NamesTheFaultOfASource(t *testing.T) {
	t.Parallel()
	f := newOutside(t, endpoint.Options{AllowLoopback: true})
	var reached atomic.Int32
	inside := serving(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	expired, unknown := certified(t, time.Now().Add(-time.Hour)), certified(t, time.Now().Add(time.Hour))
	for id, c := range map[string]struct{ source, says string }{
		"expired": {expired.URL, "certificate rejected: certificate has expired"},
		"unknown": {unknown.URL, "certificate rejected: certificate signed by unknown authority"},
		"name":    {strings.Replace(unknown.URL, "127.0.0.1", "localhost", 1), "certificate rejected: certificate is not valid for any names, but wanted to match localhost"},
		"no-tls":  {strings.Replace(inside, "http:", "https:", 1), "does not speak TLS"},
		"link-local": {serving(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}), "the source responds 302: Found"},
		"redirect": {serving(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
		}), "the source responds 307: Temporary Redirect"},
		"gzip": {serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			_, _ = io.WriteString(zip, onePage)
			_ = zip.Close()
		}), `is encoded as "gzip", which was not asked for`},
		"endless": {serving(t, func(w http.ResponseWriter, _ *http.Request) {
			for part, err := make([]byte, 1<<20), error(nil); err == nil; _, err = w.Write(part) {
			}
		}), "has more than 33554432 bytes"},
		"page": {serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html>")
		}), "is no page of changes"},
	} {
		before := time.Now()
		st, err := follow(t, f, id, c.source)
		require.ErrorContains(t, err, c.says, id)
		require.Equal(t, sluice.SyncError, st.State, id)
		require.Contains(t, st.Error, c.says, id)
		require.Contains(t, st.Sentence, c.says, id)
		require.Zero(t, st.Watermark, id)
		require.NotNil(t, st.NextSyncAt, id)
		require.Greater(t, st.NextSyncAt.Sub(before), sluice.MinPollInterval.Std(), "%s: it is tried later", id)
	}
	require.Zero(t, reached.Load(), "no redirect is followed")
}

// The content type of a response is no matter: what is a page is one.
func TestSync_TakesAPageOfAnyContentType(t *testing.T) {
	t.Parallel()
	f := newOutside(t, endpoint.Options{AllowLoopback: true})
	st, err := follow(t, f, "m", serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Query().Get("since") == "0" {
			_, _ = io.WriteString(w, onePage)
			return
		}
		_, _ = io.WriteString(w, `{"incarnation":"i","first_seq":1,"last_seq":1,"through_seq":1,"items":[]}`)
	}))
	require.NoError(t, err)
	require.Equal(t, []any{sluice.SyncIdle, 1}, []any{st.State, st.MirroredCount})
}

// A name that is found elsewhere after its mirror was created leads to no address that the guard refuses.
func TestSync_RefusesANameThatMovesInside(t *testing.T) {
	t.Parallel()
	for id, addr := range map[string]string{"loopback": "127.0.0.1", "private": "10.1.2.3", "link-local": "169.254.169.254"} {
		dns := &faulttest.DNS{}
		dns.Set("93.184.216.34")
		f := newOutside(t, endpoint.Options{Resolver: dns.Resolver()})
		require.NoError(t, endpoint.New(endpoint.Options{Resolver: dns.Resolver()}).Check(t.Context(), sluice.Endpoint{URL: "https://low.example/v1/namespaces/low"}))
		dns.Set(addr)
		st, err := follow(t, f, id, "https://low.example")
		require.ErrorContains(t, err, "address "+addr+" is "+id)
		require.Equal(t, sluice.SyncError, st.State)
		require.Contains(t, st.Error, "address "+addr+" is "+id)
	}
}

// S3-50: a source that asks for a pause has it, an hour at most, in seconds or until a time.
func TestSync_WaitsAsLongAsTheSourceAsks(t *testing.T) {
	t.Parallel()
	f := newOutside(t, endpoint.Options{AllowLoopback: true})
	for id, c := range map[string]struct {
		status int
		asks   string
		waits  time.Duration
	}{
		"seconds":      {http.StatusTooManyRequests, "600", 10 * time.Minute},
		"overloaded":   {http.StatusServiceUnavailable, "900", 15 * time.Minute},
		"too-long":     {http.StatusServiceUnavailable, "86400", time.Hour},
		"a-date":       {http.StatusTooManyRequests, time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat), time.Hour},
		"less":         {http.StatusTooManyRequests, "1", 0},
		"over":         {http.StatusTooManyRequests, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0},
		"nonsense":     {http.StatusTooManyRequests, "-5", 0},
		"other-status": {http.StatusInternalServerError, "600", 0},
	} {
		before := time.Now()
		st, err := follow(t, f, id, serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.asks)
			w.WriteHeader(c.status)
		}))
		after := time.Now()
		require.Error(t, err, id)
		require.NotNil(t, st.NextSyncAt, id)
		if c.waits == 0 { // the interval of 10 s, doubled with each failure
			require.Less(t, st.NextSyncAt.Sub(after), 5*time.Minute, id)
			continue
		}
		require.GreaterOrEqual(t, st.NextSyncAt.Sub(before), c.waits, id)
		require.LessOrEqual(t, st.NextSyncAt.Sub(after), c.waits, id)
	}
}

var _ mirror.Sources = outside{}
