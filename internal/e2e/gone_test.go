package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// lossOf says what a server does without one of its streams.
type lossOf struct {
	again bool // it makes the stream again
	mute  bool // nothing can be published, or delivered, without it
}

// losses has every stream and bucket, without a prefix. One that is new belongs here: is anything that cannot come back in it?
func losses() map[string]lossOf {
	var names streams.Names
	all := map[string]lossOf{
		names.EventsStream("default"): {mute: true}, names.EventsStream("acme"): {},
		names.Attempts(): {again: true}, names.DeadLetters(): {again: true}, names.Ledger(): {}, names.Mirror(): {again: true}, names.Knowledge(): {again: true},
	}
	for bucket, loss := range map[string]lossOf{
		streams.Namespaces: {}, streams.Subscriptions: {}, streams.Access: {mute: true}, streams.Keys: {}, streams.Unsafe: {},
		streams.Wakes: {}, streams.EventTypes: {}, streams.Watches: {}, streams.StreamWakes: {},
		streams.Mirrors: {}, streams.Credentials: {}, streams.TrustedKeys: {}, streams.Enrichments: {}, streams.Modules: {},
		streams.Told: {again: true}, streams.Answers: {again: true}, streams.Reservations: {again: true}, streams.Lanes: {again: true},
		streams.Replays: {again: true}, streams.Rollups: {again: true}, streams.Problems: {again: true}, streams.PortalLinks: {again: true}, streams.Leases: {again: true}, streams.Scheduled: {again: true}, streams.Instructions: {again: true},
	} {
		all[names.BucketStream(bucket)] = loss
	}
	return all
}

// losing is a server of which a stream is lost.
type losing struct {
	*running

	name string
	hook *hooktest.Server
	log  *logLines
	last uint64 // that the stream had given out
	sent int
}

func newLosing(t *testing.T, bare string) *losing {
	t.Helper()
	l := &losing{hook: hooktest.New(t, nil), log: &logLines{}}
	l.running = startLogging(t, t.TempDir(), nil, l.log)
	l.name, _ = jsNames(t).Renamed(streams.Names{}, bare)
	l.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	l.must(t, http.StatusCreated, "POST /v1/namespaces/acme/events", `{"path":"/a"}`)
	l.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/t", `{"description":"known"}`)
	l.subscribe(t, "s", l.hook.URL)
	l.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"acme","source":"default"}`)
	l.delivers(t)
	stream, err := dial(t, l.at.NATS).Stream(t.Context(), l.name)
	require.NoError(t, err)
	l.last = stream.CachedInfo().State.LastSeq
	eventually(t, func() bool {
		counts, err := os.ReadFile(filepath.Join(l.dir, "counts.json"))
		return err == nil && strings.Contains(string(counts), `"`+l.name+`"`)
	}, "the server has seen the stream")
	return l
}

// delivers publishes an event and waits until it has come.
func (l *losing) delivers(t *testing.T) {
	t.Helper()
	l.sent++
	data := fmt.Sprintf("event-%d", l.sent)
	eventually(t, func() bool {
		return l.call(t, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"id":%q,"path":"/a/1","type":"t","data":%q}`, data, data)).status < 300
	}, "it can be published")
	eventually(t, func() bool {
		return slices.ContainsFunc(l.hook.Requests(), func(r hooktest.Request) bool { return strings.Contains(string(r.Body), data) })
	}, "it is delivered")
}

// follows waits until the stream is there and gives out no sequence again.
func (l *losing) follows(t *testing.T) {
	t.Helper()
	js := dial(t, l.at.NATS)
	eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), l.name)
		return err == nil && stream.CachedInfo().State.LastSeq >= l.last
	}, l.name+" is there again, behind its sequences")
	eventually(t, func() bool { return l.call(t, "GET /readyz", "").status == http.StatusOK }, "the server is ready")
}

// toldOf returns how often the log says that the stream is damaged.
func (l *losing) toldOf() int {
	n := 0
	for line := range strings.Lines(l.log.String()) {
		if strings.Contains(line, "stored data is damaged") && strings.Contains(line, "stream="+l.name+" ") {
			n++
		}
	}
	return n
}

// Issue 13, F13: a stream that is deleted under a running server is noticed. Streams that can be made again are; of the
// rest the server says what is missing until an operator gives it up.
func TestGone_StreamIsToldAndMadeAgain(t *testing.T) {
	t.Parallel()
	all := losses()
	var bare streams.Names
	require.Subset(t, slices.Collect(maps.Keys(all)), bare.Lasting(), "every stream is tried")
	require.Len(t, all, len(bare.Lasting())+2)
	for name, loss := range all {
		require.Equal(t, loss.again, bare.MadeAgain(name), name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLosing(t, name)
			require.NoError(t, dial(t, l.at.NATS).DeleteStream(t.Context(), l.name))
			found := l.damageOf(t, l.name)
			require.Equal(t, sluice.DamageMissing, found[0].Kind)
			if !loss.again {
				l.staysGone(t, loss)
			}
			l.follows(t)
			require.Equal(t, 1, l.toldOf())
			if name != bare.BucketStream(streams.Subscriptions) { // given up with all that it held
				l.delivers(t)
			}
		})
	}
}

// staysGone checks what a server says of a stream that it does not make again, and gives the stream up.
func (l *losing) staysGone(t *testing.T, loss lossOf) {
	t.Helper()
	says := l.call(t, "GET /readyz", "")
	require.Contains(t, says.text, l.name)
	require.Contains(t, says.text, "sluice doctor --forget")
	if strings.HasPrefix(l.name, jsNames(t).EventsStream("")) {
		require.Equal(t, http.StatusOK, says.status, "other namespaces go on")
	} else {
		require.Equal(t, http.StatusServiceUnavailable, says.status)
	}
	storage, err := l.api.Storage(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{l.name}, storage.Missing)
	require.Contains(t, storage.Problem, l.name)
	eventually(t, func() bool {
		return strings.Contains(l.call(t, "GET /metrics", "").text, "\nsluice_storage_missing 1\n")
	}, "the metric says so")
	if !loss.mute {
		l.delivers(t)
	}
	_, err = dial(t, l.at.NATS).Stream(t.Context(), l.name)
	require.Error(t, err, "it is not made again behind the operator's back")
	require.NoError(t, l.api.ForgetDamage(t.Context()))
}

// Issue 13, F13: the same of what is removed while the server is stopped: it starts with an empty one, and says so.
func TestGone_WhileTheServerWasStoppedIsTold(t *testing.T) {
	t.Parallel()
	var bare streams.Names
	for name := range losses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLosing(t, name)
			l.stop(t)
			dirs, err := filepath.Glob(filepath.Join(l.dir, "nats", "jetstream", "*", "streams", l.name))
			require.NoError(t, err)
			require.Len(t, dirs, 1)
			require.NoError(t, os.RemoveAll(dirs[0]))
			l.running = startLogging(t, l.dir, nil, l.log)
			if name == bare.EventsStream("acme") || name != bare.BucketStream(streams.Namespaces) {
				require.Equal(t, sluice.DamageMissing, l.damageOf(t, l.name)[0].Kind)
			}
			l.follows(t)
			require.Equal(t, 1, l.toldOf())
			if name != bare.BucketStream(streams.Subscriptions) {
				l.delivers(t)
			}
		})
	}
}

// laneIsStored reports whether the lane of a path of the subscription s is parked in the store.
func laneIsStored(t *testing.T, js jetstream.JetStream, path sluice.Path) bool {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), jsNames(t).Bucket(streams.Lanes))
	if err != nil {
		return false
	}
	_, err = kv.Get(t.Context(), streams.LaneKey("s", sluice.OrderByPath, path, 0))
	return err == nil
}

// Issue 13, F13: deliveries go on without what was recorded of them; a lane that waits for its next attempt is stored again.
func TestGone_DeliveriesGoOn(t *testing.T) { // S0-41
	t.Parallel()
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if strings.Contains(string(r.Body), "/a/parked") {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return hooktest.Answer{}
	})
	// Leases that outlast a slow look for missing streams: work that ends with a lease has no lane to store again.
	s := startWith(t, t.TempDir(), nil, app.Options{Silent: true, LeaseTTL: time.Minute})
	subscribe(t, s.api, wish(hook.URL, `"id":"s"`, `"pattern":"/a/**"`, `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":3}}`))
	js := dial(t, s.at.NATS)
	parked := func() bool { return laneIsStored(t, js, "/a/parked") }
	put(t, s.api, "/a/parked", 1, 1)
	put(t, s.api, "/a/1", 1, 20)
	eventually(t, parked, "a lane is parked")
	watch := faulttest.Begin(t, "stream-deleted")
	for _, name := range []string{jsNames(t).Attempts(), jsNames(t).DeadLetters(), jsNames(t).BucketStream(streams.Lanes), jsNames(t).BucketStream(streams.Leases)} {
		require.NoError(t, js.DeleteStream(t.Context(), name))
	}
	watch.Recovered()
	put(t, s.api, "/a/1", 21, 40)
	var got []string
	eventually(t, func() bool {
		got = nil
		for _, r := range hook.Requests() {
			if id := r.Header.Get("Webhook-Id"); strings.HasPrefix(id, "a-1-") && !slices.Contains(got, id) {
				got = append(got, id)
			}
		}
		return len(got) == 40
	}, "all are delivered")
	watch.Resumed()
	for i, id := range got {
		require.Equal(t, numbered("/a/1", i+1), id, "in order")
	}
	eventually(t, parked, "the lane is stored again")
	twice := len(hook.Requests()) - 41
	require.LessOrEqual(t, twice, 20)
	watch.End(faulttest.Arrived{Events: 41, Twice: max(twice, 0)}, "one lane waits for its next attempt all the while; its record is written again")
}

// A stream may be made again by another server, or by a request whose answer was lost: parked lanes are stored again all the same.
func TestGone_LanesReturnToAnothersStream(t *testing.T) { // S0-41
	t.Parallel()
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusServiceUnavailable} })
	s := start(t, t.TempDir(), nil)
	subscribe(t, s.api, wish(hook.URL, `"id":"s"`, `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":3}}`))
	js := dial(t, s.at.NATS)
	parked := func() bool { return laneIsStored(t, js, "/a") }
	put(t, s.api, "/a", 1, 3)
	eventually(t, parked, "a lane is parked")
	lanes, err := js.Stream(t.Context(), jsNames(t).BucketStream(streams.Lanes))
	require.NoError(t, err)
	again := lanes.CachedInfo().Config
	again.FirstSeq = 100_000
	require.NoError(t, js.DeleteStream(t.Context(), again.Name))
	_, err = js.CreateStream(t.Context(), again)
	require.NoError(t, err)
	eventually(t, parked, "the lane is stored again")
}
