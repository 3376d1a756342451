package e2e_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// fixtureEnv names the archive that TestCompatibility_WritesAFixture writes (make fixture).
const fixtureEnv = "SLUICE_FIXTURE"

// lasting is the age up to which a fixture has all that it was written with: the store drops dead letters after 30 days, and a
// grant lasts for 90.
const lasting = 29 * 24 * time.Hour

// fixture is what the test that reads a data directory has to know of it: the file fixture.json in its archive.
type fixture struct {
	Written time.Time `json:"written"`
	Secret  string    `json:"secret"` // of the subscription "done"
	Token   string    `json:"token"`  // of a grant to read /orders/** of acme
	Cursor  string    `json:"cursor"` // of a feed that has seen two orders
	Keys    []string  `json:"keys"`   // IDs of the server's signing keys
}

// refusingSubs are the subscriptions whose endpoint fails, with their policies.
func refusingSubs() map[string]string {
	return map[string]string{
		"parked": `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":5}}`,
		"held":   `"policy":{"on_dead":"hold","retry":{"preset":"custom","steps":["1h"],"max_attempts":1}}`,
		"dead":   `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":1}}`,
	}
}

// TestCompatibility_WritesAFixture writes a data directory with something of everything that a server stores. It runs on request only.
func TestCompatibility_WritesAFixture(t *testing.T) { //nolint:paralleltest // the other test reads what it writes
	archive := os.Getenv(fixtureEnv)
	if archive == "" {
		t.Skip("make fixture")
	}
	dir := t.TempDir()
	s := start(t, dir, nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{"retention":{"max_age":"-1s"}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{"retention":{"max_age":"-1s"},"label":{"level":"INTERNAL"}}`)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/high", `{"label":{"level":"SECRET"}}`)
	f := fixture{Written: time.Now().UTC()}
	s.writeSubscriptions(t, &f)
	s.writeOthers(t, &f)
	s.stop(t)
	text, err := json.MarshalIndent(f, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fixture.json"), text, 0o600))
	pack(t, dir, archive)
}

// writeSubscriptions stores subscriptions with deliveries in every state, all paused.
func (s *running) writeSubscriptions(t *testing.T, f *fixture) {
	t.Helper()
	well := hooktest.New(t, nil)
	broken := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusTeapot} })
	const orders = `"namespace":"acme","pattern":"/orders/**"`
	f.Secret = subscribe(t, s.api, wish(well.URL, `"id":"done"`, orders)).Endpoint.Secret
	subscribe(t, s.api, wish(well.URL, `"id":"waiting"`, orders))
	_, err := s.api.PauseSubscription(t.Context(), "waiting")
	require.NoError(t, err)
	for id, policy := range refusingSubs() {
		subscribe(t, s.api, wish(broken.URL, `"id":"`+id+`"`, orders, policy))
	}
	subscribe(t, s.api, wish(well.URL, `"id":"woken"`, `"namespace":"acme","mode":"wake","pattern":"/jobs/*"`))
	s.publishes(t, "acme", "/orders/1 order-1", "/orders/2 order-2", "/jobs/1 job-1", "/orders/3 order-3", "/orders/4 order-4")
	statusOf(t, s.api, "done", idle)
	statusOf(t, s.api, "parked", func(st sluice.Status) bool { return st.Parked == 4 })
	statusOf(t, s.api, "held", heldLanes(4))
	statusOf(t, s.api, "dead", func(st sluice.Status) bool { return st.DeadLetters == 4 && st.Backlog == 0 })
	eventually(t, func() bool {
		c, err := s.api.Consumers(t.Context(), "woken", client.ConsumersQuery{})
		return err == nil && len(c.Items) == 1 && c.Items[0].Epoch == 1
	}, "the consumer is woken")
	for _, id := range []string{"done", "parked", "held", "dead", "woken"} {
		_, err := s.api.PauseSubscription(t.Context(), id)
		require.NoError(t, err, id)
	}
	for item, err := range s.api.Feed(t.Context(), "acme", client.FeedQuery{Pattern: "/orders/**", Since: "-1"}) {
		require.NoError(t, err)
		if item.Event != nil && item.Event.ID == "order-2" {
			f.Cursor = item.Resume
			break
		}
	}
}

// writeOthers stores a grant, a mirror, a stream with a producer and an event type.
func (s *running) writeOthers(t *testing.T, f *fixture) {
	t.Helper()
	body := `{"principal":"user:ann","object":"path:acme/orders/**","verbs":["read"],"expires_at":"` + f.Written.AddDate(0, 0, 89).Format(time.RFC3339) + `"}`
	f.Token, _ = s.must(t, http.StatusCreated, "POST /v1/grants", body).field(t, "token").(string)
	s.publishes(t, "low", "/a/1 one", "/a/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full","path_prefix":"/a"}`)
	s.syncs(t)
	_, _, err := s.api.CreateStream(t.Context(), "acme", "/doc/a", client.StreamSpec{ContentType: "application/json"})
	require.NoError(t, err)
	for n := range 2 {
		s.appends(t, n)
	}
	_, err = s.api.PutEventType(t.Context(), "acme", "order.placed", client.EventTypeSpec{Schema: json.RawMessage(`{"type":"object","required":["total"]}`)}, 0)
	require.NoError(t, err)
	keys, err := s.api.Keys(t.Context())
	require.NoError(t, err)
	for _, key := range keys {
		f.Keys = append(f.Keys, key.ID)
	}
}

// appends appends the nth message of a producer to the stream.
func (s *running) appends(t *testing.T, n int) {
	t.Helper()
	_, err := s.api.AppendStream(t.Context(), "acme", "/doc/a", client.StreamAppend{
		ContentType: "application/json", Data: []byte(strconv.Itoa(n)), Producer: &client.StreamProducer{ID: "p", Seq: int64(n)},
	})
	require.NoError(t, err)
}

// pack writes the files of a directory to an archive.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	require.NoError(t, err)
	zipped, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	files := tar.NewWriter(zipped)
	require.NoError(t, files.AddFS(os.DirFS(dir)))
	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())
	require.NoError(t, f.Close())
	info, err := os.Stat(archive)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(300<<10), "a fixture is small")
}

// S3-130: data directories of earlier builds are opened and served.
func TestCompatibility_EarlierDataIsServed(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/state-*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, archive, dir)
			text, err := os.ReadFile(filepath.Join(dir, "fixture.json"))
			require.NoError(t, err)
			var f fixture
			require.NoError(t, json.Unmarshal(text, &f))
			s := start(t, dir, nil)
			s.readOthers(t, f)
			s.readSubscriptions(t, f)
		})
	}
}

// readOthers reads what writeOthers stored, and goes on with it.
func (s *running) readOthers(t *testing.T, f fixture) {
	t.Helper()
	if time.Since(f.Written) < lasting {
		s.must(t, http.StatusOK, "GET /v1/namespaces/acme/events/order-1", "", as(f.Token)...)
		s.must(t, http.StatusForbidden, "POST /v1/namespaces/acme/events", `{"path":"/orders/9","type":"t"}`, as(f.Token)...)
	}
	var seen []string
	for item, err := range s.api.Feed(t.Context(), "acme", client.FeedQuery{Pattern: "/orders/**", Since: f.Cursor}) {
		require.NoError(t, err)
		if item.Event == nil {
			continue
		}
		if seen = append(seen, item.Event.ID); len(seen) == 2 {
			break
		}
	}
	require.Equal(t, []string{"order-3", "order-4"}, seen, "the cursor of a feed")

	s.publishes(t, "low", "/a/3 three")
	s.syncs(t)
	require.Equal(t, []string{"one 1 one", "two 2 two", "three 3 three"}, s.mirrorsOf(t, "high"))
	s.appends(t, 1) // the producer did already
	s.appends(t, 2)
	stream, err := s.api.ReadStream(t.Context(), "acme", "/doc/a", "")
	require.NoError(t, err)
	messages, err := stream.Messages()
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{json.RawMessage(`0`), json.RawMessage(`1`), json.RawMessage(`2`)}, messages)
	kind, err := s.api.EventType(t.Context(), "acme", "order.placed")
	require.NoError(t, err)
	require.Contains(t, string(kind.Schema), "required")
	keys, err := s.api.Keys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, len(f.Keys))
	for i, key := range keys {
		require.Equal(t, f.Keys[i], key.ID)
	}
}

// readSubscriptions resumes the subscriptions at endpoints that accept: each continues where it was.
func (s *running) readSubscriptions(t *testing.T, f fixture) {
	t.Helper()
	hooks := map[string]*hooktest.Server{}
	for _, id := range []string{"done", "waiting", "parked", "held", "dead"} {
		hooks[id] = hooktest.New(t, nil)
		_, err := s.api.PatchSubscription(t.Context(), id, map[string]any{"endpoint": map[string]any{"url": hooks[id].URL}}, 0)
		require.NoError(t, err, id)
		_, err = s.api.ResumeSubscription(t.Context(), id)
		require.NoError(t, err, id)
	}
	statusOf(t, s.api, "held", heldLanes(4))
	for _, id := range []string{"parked", "held"} {
		_, err := s.api.RetryLanes(t.Context(), id)
		require.NoError(t, err, id)
	}
	all := []string{"order-1", "order-2", "order-3", "order-4"}
	for _, id := range []string{"waiting", "parked", "held"} {
		require.ElementsMatch(t, all, idsOf(hooks[id].Wait(4)), id)
	}
	for _, r := range hooks["parked"].Requests() {
		require.Equal(t, "2", r.Header.Get("webhook-attempt"), "the earlier attempt counts")
	}
	if time.Since(f.Written) < lasting {
		_, err := s.api.Redrive(t.Context(), "dead", client.RedriveSpec{All: true})
		require.NoError(t, err)
		require.ElementsMatch(t, all, idsOf(hooks["dead"].Wait(4)), "dead letters")
	}
	s.publishes(t, "acme", "/orders/5 order-5")
	require.Equal(t, []string{"order-5"}, idsOf(hooks["done"].Wait(1)), "nothing is delivered again")
	receive(t, &webhook.Receiver{Secrets: []string{f.Secret}}, hooks["done"].Requests()[0])
	woken, err := s.api.Consumers(t.Context(), "woken", client.ConsumersQuery{})
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Path("/jobs/1"), uint64(1)}, []any{woken.Items[0].Path, woken.Items[0].Epoch})
}
