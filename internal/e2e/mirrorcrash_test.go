package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peer is the address of a child, which it keeps over its restarts.
type peer struct{ http string }

// asks sends a request to a child that may be down, and returns the body of a response with a status below 300.
func (c peer) asks(ctx context.Context, token, line, body string) ([]byte, bool) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	method, path, _ := strings.Cut(line, " ")
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.http+path, strings.NewReader(body))
	if err != nil {
		return nil, false
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, false
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return text, err == nil && resp.StatusCode < http.StatusMultipleChoices
}

// until repeats asks until the child responds with success.
func (c peer) until(t *testing.T, token, line, body string) []byte {
	t.Helper()
	var text []byte
	require.Eventually(t, func() (ok bool) {
		text, ok = c.asks(t.Context(), token, line, body)
		return ok
	}, 2*time.Minute, time.Millisecond, "%s: %s", line, text)
	return text
}

// changeable is one entry of a page, of a source or of a mirror.
type changeable struct {
	Op, ID, RevisionOf string
	Seq, ErasedSeq     uint64
	Tombstoned         bool
	Data               struct{ N int }
}

// key is the id of the original.
func (c *changeable) key() string {
	return cmp.Or(c.RevisionOf, c.ID)
}

// UnmarshalJSON reads it from a page.
func (c *changeable) UnmarshalJSON(text []byte) error {
	var in struct {
		Op, ID     string
		RevisionOf string `json:"revision_of"`
		Seq        uint64
		ErasedSeq  uint64 `json:"erased_seq"`
		Tombstoned bool
		Data       struct{ N int }
	}
	err := json.Unmarshal(text, &in)
	*c = changeable{in.Op, in.ID, in.RevisionOf, in.Seq, in.ErasedSeq, in.Tombstoned, in.Data}
	return err
}

// sourceOf returns the content of a source by the ids of its entries, from its changes, and the entries of which a later version was
// erased: a mirror that had that has a tombstone, and one that came later has the version before.
func (c peer) sourceOf(t *testing.T, token string) (content map[string]int, either map[string]bool) {
	t.Helper()
	content, either = map[string]int{}, map[string]bool{}
	seqs, erased := map[string]uint64{}, map[string]uint64{}
	for since := uint64(0); ; {
		var page struct {
			ThroughSeq uint64 `json:"through_seq"`
			HasMore    bool   `json:"has_more"`
			Items      []changeable
		}
		require.NoError(t, json.Unmarshal(c.until(t, token, fmt.Sprintf("GET /v1/namespaces/default/observe?limit=1000&since=%d", since), ""), &page))
		for _, item := range page.Items {
			if item.Op == "delete" {
				erased[item.key()] = max(erased[item.key()], item.ErasedSeq)
			} else {
				content[item.key()], seqs[item.key()] = item.Data.N, item.Seq
			}
		}
		if since = page.ThroughSeq; page.HasMore {
			continue
		}
		for key, seq := range seqs {
			either[key] = erased[key] > seq
		}
		return content, either
	}
}

// copyOf returns what a mirror has, by the ids of its entries, and how often it lists one of them again.
func (c peer) copyOf(t *testing.T, token string) (content map[string]int, twice int) {
	t.Helper()
	content = map[string]int{}
	seen := map[string]bool{}
	for after := ""; ; {
		var page struct {
			NextCursor string `json:"next_cursor"`
			Items      []changeable
		}
		require.NoError(t, json.Unmarshal(c.until(t, token, "GET /v1/namespaces/default/items?source=mirrored&limit=1000&after="+after, ""), &page))
		for _, item := range page.Items {
			if seen[item.key()] {
				twice++
			}
			seen[item.key()] = true
			if !item.Tombstoned {
				content[item.key()] = item.Data.N
			}
		}
		if after = page.NextCursor; after == "" {
			return content, twice
		}
	}
}

// changes publishes, revises and erases in a source until ctx ends, however often the source is down. When it returns, no change is
// in flight.
func (c peer) changes(ctx context.Context, token string) {
	lasting := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		batch := make([]string, 20)
		for i := range batch {
			revises := ""
			if n > 0 && i%5 == 0 {
				revises = fmt.Sprintf(`,"revisionof":"e%d"`, rand.IntN(20*n))
			}
			batch[i] = fmt.Sprintf(`{"specversion":"1.0","source":"/s","type":"t","id":"e%d","path":"/a/%d","data":{"n":%d}%s}`, 20*n+i, (20*n+i)%97, 20*n+i, revises)
		}
		body := "[" + strings.Join(batch, ",") + "]"
		for ok := false; !ok && ctx.Err() == nil; {
			_, ok = c.asks(lasting, token, "POST /v1/namespaces/default/events", body)
		}
		erase := fmt.Sprintf(`{"path":"/a/%d"}`, rand.IntN(97))
		for ok := n%10 != 9; !ok; { // one that was interrupted is the caller's to repeat
			_, ok = c.asks(lasting, token, "POST /v1/namespaces/default/tombstones", erase)
		}
	}
}

// Issue 16: whichever side is killed, and when, the mirror has what its source has, each entry once, and its watermark never falls.
// S3-39, S3-48, S3-56.
func TestMirror_HasItsSourceAfterKills(t *testing.T) {
	t.Parallel()
	kills, limit := 6, 4*time.Minute
	if os.Getenv("SLUICE_LONG") != "" {
		kills, limit = 200, 20*time.Minute
	}
	low, high := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}, &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	for _, c := range []*child{low, high} {
		c.start(t)
		t.Cleanup(func() { _ = c.proc.Process.Kill() })
	}
	lows, highs := low.token(t), high.token(t)
	lowAt, highAt := peer{low.http}, peer{high.http}
	var issued struct{ Token string }
	require.NoError(t, json.Unmarshal(lowAt.until(t, lows, "POST /v1/grants", grantBody("service:mirror", "scope:default", "read")), &issued))
	highAt.until(t, highs, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"m","mode":"mirror","depth":"full","source":"http://%s/v1/namespaces/default","credential":%q}`, low.http, issued.Token))

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var running, publishing sync.WaitGroup
	changing, stop := context.WithCancel(ctx)
	defer stop()
	publishing.Go(func() { lowAt.changes(changing, lows) })
	syncing, end := context.WithCancel(ctx)
	defer end()
	running.Go(func() {
		for syncing.Err() == nil {
			_, _ = highAt.asks(syncing, highs, "POST /v1/subscriptions/m/sync?wait=10s", "")
		}
	})
	watermark := uint64(0)
	follow := func(more uint64) {
		from := watermark
		require.Eventually(t, func() bool {
			text, ok := highAt.asks(ctx, highs, "GET /v1/subscriptions/m/status", "")
			var st struct {
				Watermark uint64
				Reason    string
			}
			if !ok || json.Unmarshal(text, &st) != nil {
				return false
			}
			require.Empty(t, st.Reason)
			require.GreaterOrEqual(t, st.Watermark, watermark, "the watermark fell")
			watermark = st.Watermark
			return watermark >= from+more
		}, limit, time.Millisecond)
	}
	for range kills {
		follow(uint64(rand.IntN(60)))
		c := []*child{low, high}[rand.IntN(2)]
		c.kill(t)
		c.start(t)
	}
	follow(1)
	stop()
	publishing.Wait()
	want, either := lowAt.sourceOf(t, lows)
	var last struct {
		LastSeq uint64 `json:"last_seq"`
	}
	require.NoError(t, json.Unmarshal(lowAt.until(t, lows, "GET /v1/namespaces/default/observe?limit=1", ""), &last))
	follow(last.LastSeq - min(last.LastSeq, watermark))
	end()
	running.Wait()
	has, twice := highAt.copyOf(t, highs)
	for key, maybe := range either {
		if _, had := has[key]; maybe && !had {
			delete(want, key)
		}
	}
	require.Equal(t, want, has)
	require.Zero(t, twice)
	t.Logf("%d kills, %d sequences, %d entries", kills, watermark, len(has))
}
