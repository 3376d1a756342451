package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// fullStore is a server whose store is full of events, some of which are not delivered yet.
type fullStore struct {
	*running

	js   jetstream.JetStream
	got  *faulttest.Arrivals
	sent map[string][]string
	open atomic.Bool // the endpoint takes what it is sent
}

// newFullStore publishes until no more is taken, by the server or, as any client of NATS may, past it.
func newFullStore(t *testing.T) *fullStore {
	t.Helper()
	s := &fullStore{running: start(t, t.TempDir(), func(c *config.Config) { c.NATS.MaxStore, c.NATS.Sync = 32<<20, "2m" })}
	s.js = dial(t, s.at.NATS)
	s.fillUp(t)
	return s
}

// fillUp fills the store of a server.
func (s *fullStore) fillUp(t *testing.T) {
	t.Helper()
	s.got, s.sent = faulttest.NewArrivals(), map[string][]string{}
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if !s.open.Load() || r.Header.Get("Webhook-Id") == "doomed" {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		id := r.Header.Get("Webhook-Id")
		s.got.Try("/a", id)
		s.got.Take(id)
		return hooktest.Answer{Status: http.StatusOK}
	})
	subscribe(t, s.api, fmt.Sprintf(`{"id":"s","namespace":"default","pattern":"/a","endpoint":{"url":%q},%s}`, hook.URL, patient))
	subscribe(t, s.api, fmt.Sprintf(`{"id":"d","namespace":"default","pattern":"/doomed","endpoint":{"url":%q},"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":1}}}`, hook.URL))
	s.event(t, "/doomed", "doomed")
	_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: "later", Path: "/later", Data: []byte(`{}`)}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	for i := range 20 {
		id := fmt.Sprint("e", i)
		s.event(t, "/a", id)
		s.sent["/a"] = append(s.sent["/a"], id)
	}
	for storage := (sluice.Storage{}); storage.UsedBytes <= storage.LimitBytes/10*9; {
		_, err := s.js.Publish(t.Context(), jsNames(t).EventsPrefix()+"default.flood", make([]byte, 128<<10))
		require.NoError(t, err)
		storage, err = s.api.Storage(t.Context())
		require.NoError(t, err)
	}
	s.level(t, sluice.StorageTight)
	require.Eventually(t, func() bool {
		_, err := s.js.Publish(t.Context(), jsNames(t).EventsPrefix()+"default.flood", nil)
		return err != nil && strings.Contains(err.Error(), "maximum bytes exceeded")
	}, patience, 10*time.Millisecond, "NATS says at once that no more is taken")
}

func (s *fullStore) event(t *testing.T, path sluice.Path, id string) {
	t.Helper()
	_, err := s.api.Publish(t.Context(), "default", sluice.Event{ID: id, Path: path, Data: []byte(`{}`)})
	require.NoError(t, err)
}

// level waits until the store says that it is at a level.
func (s *fullStore) level(t *testing.T, want sluice.StorageLevel) sluice.Storage {
	t.Helper()
	var storage sluice.Storage
	require.Eventually(t, func() bool {
		var err error
		storage, err = s.api.Storage(t.Context())
		return err == nil && storage.Level == want
	}, patience, 10*time.Millisecond, "%s", want)
	return storage
}

// administer does what frees room, takes rights or keeps a caller out.
func (s *fullStore) administer(t *testing.T, grant string) {
	t.Helper()
	_, err := s.api.PauseSubscription(t.Context(), "s")
	require.NoError(t, err)
	_, err = s.api.ResumeSubscription(t.Context(), "s")
	require.NoError(t, err)
	_, err = s.api.RevokeGrant(t.Context(), grant)
	require.NoError(t, err)
	require.NoError(t, s.api.CancelScheduled(t.Context(), "default", "later"))
	_, err = s.api.Erase(t.Context(), "default", "/private")
	require.NoError(t, err)
}

func (s *fullStore) grant(t *testing.T) string {
	t.Helper()
	minted, err := s.api.MintGrant(t.Context(), client.GrantSpec{
		Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbRead}, Object: sluice.Object{Namespace: "default"}, ExpiresAt: time.Now().Add(time.Hour),
	})
	require.NoError(t, err)
	return minted.ID
}

// F4: a store that is full of events is administered as any other, its deliveries go on, and it takes events again when
// there is room.
func TestFullStore_IsAdministered(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	s := newFullStore(t)
	watch := faulttest.Begin(t, "full-store")
	storage := s.level(t, sluice.StorageTight)
	require.Contains(t, storage.Problem, "refuses events")
	require.NotNil(t, storage.FreeBytes)
	refused := s.must(t, http.StatusServiceUnavailable, "POST /v1/namespaces/default/events", `{"id":"more","path":"/a","data":{}}`)
	require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"))
	ready := s.must(t, http.StatusOK, "GET /readyz", "")
	require.Equal(t, "tight", ready.field(t, "storage"))
	require.Contains(t, ready.field(t, "problem"), "refuses events")

	s.goesOn(t, watch.Recovered)
	watch.Resumed()
	s.empties(t)
	watch.End(s.got.Compare(s.sent), "events are refused at once; pausing, revoking, erasing and deleting are not")
}

// goesOn does what frees room and takes rights, and waits for the deliveries.
func (s *fullStore) goesOn(t *testing.T, opened func()) {
	t.Helper()
	s.administer(t, s.grant(t))
	require.Eventually(t, func() bool {
		page, err := s.api.DeadLetters(t.Context(), "d", client.DeadLettersQuery{})
		return err == nil && len(page.Items) == 1
	}, patience, 10*time.Millisecond)
	require.NoError(t, s.api.DiscardDeadLetters(t.Context(), "d"))
	require.NoError(t, s.api.DeleteSubscription(t.Context(), "d"))
	s.open.Store(true)
	opened()
	require.Eventually(t, func() bool { return s.got.Taken() == 20 }, patience, 10*time.Millisecond, "deliveries go on")
}

// empties frees room, and waits until events are taken again.
func (s *fullStore) empties(t *testing.T) {
	t.Helper()
	_, err := s.api.PutNamespace(t.Context(), "default", client.NamespaceSpec{Retention: sluice.Retention{MaxBytes: 16 << 20}})
	require.NoError(t, err)
	s.level(t, sluice.StorageAmple)
	require.Eventually(t, func() bool {
		return s.call(t, "POST /v1/namespaces/default/events", `{"id":"e20","path":"/a","data":{}}`).status < http.StatusBadRequest
	}, patience, 10*time.Millisecond, "events are taken again")
	s.sent["/a"] = append(s.sent["/a"], "e20")
	require.Eventually(t, func() bool { return s.got.Taken() == 21 }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(s.systemEvents(t, sluice.TypeScheduledCancelled)) == 1 }, patience, 10*time.Millisecond)
	stream, err := s.js.Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	require.Equal(t, jetstream.DiscardOld, stream.CachedInfo().Config.Discard, "as it was")
}

// F4: what is left for records is kept for what frees room and takes rights.
func TestFullStore_KeepsItsLastRoom(t *testing.T) {
	t.Parallel()
	s := newFullStore(t)
	s.level(t, sluice.StorageTight)
	grant := s.grant(t)
	_, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHERS", Subjects: []string{"others"}})
	require.NoError(t, err)
	for storage := (sluice.Storage{}); storage.UsedBytes <= storage.LimitBytes/100*96; {
		_, err := s.js.Publish(t.Context(), "others", make([]byte, 64<<10))
		require.NoError(t, err)
		storage, err = s.api.Storage(t.Context())
		require.NoError(t, err)
	}
	s.level(t, sluice.StorageScarce)
	refused := s.must(t, http.StatusServiceUnavailable, "POST /v1/grants", `{"principal":"user:bob","verbs":["read"]}`)
	require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"))
	s.must(t, http.StatusServiceUnavailable, "POST /v1/subscriptions", `{"id":"more"}`)
	s.administer(t, grant)
	s.open.Store(true)
	require.Eventually(t, func() bool { return s.got.Taken() == 20 }, patience, 10*time.Millisecond, "deliveries go on")
	limits := func(stream string) jetstream.StreamConfig {
		info, err := s.js.Stream(t.Context(), stream)
		require.NoError(t, err)
		return info.CachedInfo().Config
	}
	for stream, discard := range map[string]jetstream.DiscardPolicy{jsNames(t).Attempts(): jetstream.DiscardOld, jsNames(t).DeadLetters(): jetstream.DiscardNew} {
		require.Equal(t, discard, limits(stream).Discard, stream)
		require.Positive(t, limits(stream).MaxBytes, stream)
	}
	require.NoError(t, s.js.DeleteStream(t.Context(), "OTHERS"))
	s.level(t, sluice.StorageTight)
	require.Eventually(t, func() bool {
		return limits(jsNames(t).Attempts()).MaxBytes == -1 && limits(jsNames(t).DeadLetters()).Discard == jetstream.DiscardOld
	}, patience, 10*time.Millisecond)
	require.Positive(t, limits(jsNames(t).EventsStream("default")).MaxBytes)
}
