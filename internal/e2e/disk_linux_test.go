package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// limitFiles lets no file of the child grow beyond a size: every write that would fails, as on a full disk. It needs no
// rights, and is lifted while the child runs.
func (c *child) limitFiles(t *testing.T, size uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: size, Max: math.MaxUint64}
	require.NoError(t, unix.Prlimit(c.proc.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// diskWorld is a server in a process of its own, with a subscription, and a publisher that does not give up.
type diskWorld struct {
	*child

	api  *client.Client
	got  *faulttest.Arrivals
	sent map[string][]string
}

func newDiskWorld(t *testing.T) *diskWorld {
	t.Helper()
	w := &diskWorld{child: &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}, got: faulttest.NewArrivals(), sent: map[string][]string{}}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Webhook-Id")
		w.got.Try(id[:2], id)
		w.got.Take(id)
	}))
	t.Cleanup(hook.Close)
	w.start(t)
	t.Cleanup(func() { _ = w.proc.Process.Kill() })
	w.api = client.New("http://"+w.http, w.token(t))
	subscribe(t, w.api, fmt.Sprintf(`{"id":"s","namespace":"default","pattern":"/d/*","endpoint":{"url":%q},%s}`, hook.URL, patient))
	return w
}

// publish publishes an event, again and again until it is acknowledged.
func (w *diskWorld) publish(t *testing.T, path, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := w.api.Publish(t.Context(), "default", sluice.Event{ID: id, Path: sluice.Path("/d/" + path), Data: []byte(`{}`)})
		return err == nil
	}, patience, 20*time.Millisecond, id)
	w.sent[path] = append(w.sent[path], id)
}

// some publishes n events on two paths.
func (w *diskWorld) some(t *testing.T, n int) {
	t.Helper()
	for range n {
		for _, path := range []string{"p0", "p1"} {
			w.publish(t, path, fmt.Sprintf("%s-%d", path, len(w.sent[path])))
		}
	}
}

// get returns any answer to a request.
func (w *diskWorld) get(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.http+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+w.token(t))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// F3: a disk that takes no writes is noticed and said, and when it takes them again, all goes on by itself.
func TestDiskFull_HealsByItself(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	w := newDiskWorld(t)
	w.some(t, 10)
	js := dial(t, "nats://"+w.nats, nats.MaxReconnects(-1))
	watch := faulttest.Begin(t, "disk-full")
	w.limitFiles(t, 1)
	const event = `{"id":"p0-refused","path":"/d/p0","data":{}}`
	require.Eventually(t, func() bool {
		status, _ := w.get(t, http.MethodGet, "/readyz", "")
		if status != http.StatusOK {
			return true
		}
		w.get(t, http.MethodPost, "/v1/namespaces/default/events", event)
		return false
	}, patience, 10*time.Millisecond, "it is noticed")
	status, text := w.get(t, http.MethodPost, "/v1/namespaces/default/events", event)
	require.Equal(t, http.StatusServiceUnavailable, status, text)
	require.Contains(t, text, `"reason":"insufficient_storage"`)
	status, text = w.get(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "disk")
	status, _ = w.get(t, http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, status, "an orchestrator does not kill it")
	var storage sluice.Storage
	_, text = w.get(t, http.MethodGet, "/v1/storage", "")
	require.NoError(t, json.Unmarshal([]byte(text), &storage), text)
	require.Equal(t, sluice.StorageBroken, storage.Level)

	w.limitFiles(t, math.MaxUint64)
	watch.Recovered()
	w.publish(t, "p0", "p0-refused")
	require.Eventually(t, func() bool { return w.got.Taken() == 21 }, patience, 10*time.Millisecond)
	resumed := watch.Resumed()
	w.some(t, 10)
	require.Eventually(t, func() bool {
		_, err := js.Publish(t.Context(), jsNames(t).EventsPrefix()+"default.other", nil)
		return err == nil
	}, patience, 50*time.Millisecond, "NATS clients come back")
	require.Eventually(t, func() bool { return w.got.Taken() == 41 }, patience, 10*time.Millisecond)
	status, text = w.get(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status, text)
	t.Logf("resumed after %s", resumed)
	watch.End(w.got.Compare(w.sent), "publishing is refused at once, and the server not ready; it goes on in the same process")
}

// F10: with a disk that takes no writes a server that is told to end ends at its deadline, too, and the next one goes on.
func TestStop_EndsOnFullDisk(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	c, hook := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0", env: []string{serveGraceEnv + "=" + stopGrace.String()}}, newHolder(t)
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() })
	w := &diskWorld{child: c, api: client.New("http://"+c.http, c.token(t)), got: hook.Arrivals, sent: map[string][]string{}}
	subscribe(t, w.api, fmt.Sprintf(`{"id":"s","namespace":"default","pattern":"/d/*","endpoint":{"url":%q},%s}`, hook.url, patient))
	w.some(t, 1)
	eventually(t, func() bool { return hook.Tries() == 2 }, "the attempts are under way")

	watch := faulttest.Begin(t, "stop-disk-full")
	w.limitFiles(t, 1)
	began := time.Now()
	require.NoError(t, c.proc.Process.Signal(syscall.SIGTERM))
	hook.release()
	ended := make(chan error, 1)
	go func() { ended <- c.proc.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(stopBound):
		require.FailNow(t, "it does not end")
	}
	took := time.Since(began)

	watch.Recovered()
	c.start(t)
	w.api = client.New("http://"+c.http, c.token(t))
	eventually(t, func() bool { return hook.Taken() == 2 }, "all arrived")
	watch.Resumed()
	w.some(t, 1)
	eventually(t, func() bool { return hook.Taken() == 4 }, "and the next ones")
	watch.End(hook.Compare(w.sent), fmt.Sprintf("it ended %.0f s after it was told to, with shutdown_grace %s", took.Seconds(), stopGrace))
}
