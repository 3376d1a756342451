package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// shellWorker is a worker in sh: what it does with an event is in the event's id.
const shellWorker = `echo '{"ready":true}'
while read -r line; do
  id=${line#'{"id":"'}; id=${id%%\"*}
  case "$line" in
  *'"attempt":1,'*'"id":"later"'*) answer='"retry":"no stock","after":"1ms"' ;;
  *'"id":"bad"'*) answer='"dead":"no such order"' ;;
  *'"id":"slow"'*) : > "$HOME/slow"; while [ ! -e "$HOME/go" ]; do sleep 0.01; done; answer='"ok":true' ;;
  *'"id":"dies"'*) echo "out of luck" >&2; exit 9 ;;
  *) answer='"ok":true' ;;
  esac
  echo "{\"id\":\"$id\",$answer}"
done`

const workerManifest = `{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"mode":"worker","timeout":"60s",
	"retry":{"preset":"custom","steps":["100ms"],"max_attempts":3}}]}`

// A worker's answers decide as exit codes do, and its subscription is one like any other (S4-29).
func TestModule_WorkerAnswersEvents(t *testing.T) {
	t.Parallel()
	s, dirs := withModules(t)
	moduleOf(t, dirs, "shop", shellWorker, "events/subscribe.json", workerManifest)
	s.approves(t, "shop")
	s.publishes(t, "default", "/1 ok", "/2 later", "/3 bad", "/4 dies")
	outcomes := map[string][]string{}
	for _, id := range []string{"ok", "later", "bad", "dies"} {
		for _, a := range s.attemptsOf(t, "shop-run", id) {
			outcomes[id] = append(outcomes[id], fmt.Sprint(a["outcome"], " ", a["error"]))
		}
	}
	require.Equal(t, []string{"delivered <nil>"}, outcomes["ok"])
	require.Equal(t, []string{"failed the worker asked for another attempt: no stock", "delivered <nil>"}, outcomes["later"])
	require.Equal(t, []string{"refused the worker refused the event: no such order"}, outcomes["bad"])
	require.Contains(t, outcomes["dies"][0], "failed the worker crashed at this event: the program ended with exit code 9: out of luck")
	reasons := map[string]any{}
	for _, letter := range s.membersOf(t, "GET /v1/subscriptions/shop-run/dead-letters", "dead_letters") {
		reasons[letter["event_id"].(string)] = letter["reason"]
	}
	require.Equal(t, "handler_refused", reasons["bad"])
	require.Contains(t, []any{"exhausted", "handler_crashed"}, reasons["dies"], "the latter if another was handled between its attempts")
}

// A server that stops waits for the event that a worker has, records its answer, and leaves no process.
func TestModule_WorkerFinishesBeforeTheServer(t *testing.T) {
	t.Parallel()
	dirs, dir := t.TempDir(), t.TempDir()
	change := func(c *config.Config) { c.Modules.Dirs = []string{dirs} }
	s := start(t, dir, change)
	moduleOf(t, dirs, "shop", shellWorker, "events/subscribe.json", workerManifest)
	s.approves(t, "shop")
	s.publishes(t, "default", "/1 slow")
	var begun []string
	within(t, patience, func() bool {
		begun, _ = filepath.Glob(filepath.Join(dir, "modules/.run-*/slow"))
		return len(begun) == 1
	}, "the worker has the event")
	s.cancel()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(begun[0]), "go"), nil, 0o600))
	s.stop(t)
	require.Empty(t, marked(t, dir))
	s = start(t, dir, change)
	attempts := s.attemptsOf(t, "shop-run", "slow")
	require.Len(t, attempts, 1)
	require.Equal(t, "delivered", attempts[0]["outcome"])
}

// BenchmarkModule_Worker publishes events and waits until a worker has answered each.
func BenchmarkModule_Worker(b *testing.B) {
	const events, paths = 40_000, 500
	dirs := b.TempDir()
	buildsHandler(b, dirs, "quick", "worker", `{"events":[{"eventType":"message","handler":"handlers/run","filter":{"projectScoped":true},"mode":"worker","concurrency":64}]}`)
	var whole time.Duration
	n := 0
	for b.Loop() {
		whole += handlesQuickly(b, dirs, events, paths)
		n += events
	}
	b.ReportMetric(float64(n)/whole.Seconds(), "events/s")
}
