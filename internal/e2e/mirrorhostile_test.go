package e2e_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile is a server that any mirror may name as its source: it knows every token, and answers requests for changes of each
// namespace in another bad way.
type hostile struct {
	*httptest.Server

	mu    sync.Mutex
	pages map[string]int // served, by namespace
	held  chan struct{}  // closed when the test ends
}

// answers are the ways, by namespace.
var answers = map[string]func(h *hostile, w http.ResponseWriter, since uint64, n int){
	"limits": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"down": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(http.StatusServiceUnavailable)
	},
	"redirects": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(http.StatusFound)
	},
	"page": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) { say(w, "<html>hello</html>") },
	"escape": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.WriteHeader(http.StatusInternalServerError)
		say(w, `{"error":{"message":"\u001b[2J`+strings.Repeat("x", 9999)+`"}}`)
	},
	"cut": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.Header().Set("Content-Length", "99")
		say(w, "{")
	},
	"bomb": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		_, _ = io.Copy(zip, io.LimitReader(endless{}, 1<<26))
		_ = zip.Close()
	},
	"endless": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) { _, _ = io.Copy(w, endless{}) },
	"stalls":  func(h *hostile, _ http.ResponseWriter, _ uint64, _ int) { <-h.held },
	"elements": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		say(w, `{"incarnation":"i","items":[`+strings.Repeat("{},", 8<<20)+`{}]}`)
	},
	"deep": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		say(w, `{"items":[{"extensions":`+strings.Repeat("[", 9<<20))
	},
	"backwards": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		show(w, "i", 9, 9, item(5, "a"), item(4, "b"))
	},
	"twice": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		show(w, "i", 9, 9, item(5, "a"), item(5, "b"))
	},
	"below": func(_ *hostile, w http.ResponseWriter, since uint64, _ int) {
		if since == 0 {
			show(w, "i", 9, 5, item(5, "a"))
			return
		}
		show(w, "i", 9, 9, item(5, "a"))
	},
	"forever": func(_ *hostile, w http.ResponseWriter, since uint64, _ int) { show(w, "i", 99, since) },
	"short": func(_ *hostile, w http.ResponseWriter, since uint64, _ int) {
		if since == 0 {
			show(w, "i", 10, 9, item(9, "a"))
			return
		}
		show(w, "i", 0, 0)
	},
	"other": func(_ *hostile, w http.ResponseWriter, since uint64, n int) {
		show(w, fmt.Sprint("i", n), 9, since+1, item(since+1, "a"))
	},
	"above": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		say(w, `{"incarnation":"i","first_seq":1,"last_seq":1,"through_seq":1,"label":{"level":"TOP_SECRET","compartments":[]},"items":[`+item(1, "a")+`]}`)
	},
	"many": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		items := make([]string, 101)
		for i := range items {
			items[i] = item(uint64(i+1), strconv.Itoa(i))
		}
		show(w, "i", 101, 101, items...)
	},
	"large": func(_ *hostile, w http.ResponseWriter, since uint64, _ int) {
		if since == 2 {
			show(w, "i", 2, 2)
			return
		}
		show(w, "i", 2, 2, `{"op":"write","seq":1,"id":"a","path":"/a","data":"`+strings.Repeat("x", 4<<20)+`"}`, item(2, "b"))
	},
	"far": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		show(w, "i", 1<<63, 1<<63, item(1<<63, "a"))
	},
	"future": func(_ *hostile, w http.ResponseWriter, _ uint64, _ int) {
		say(w, `{"incarnation":"i","first_seq":900,"last_seq":999,"through_seq":1,"items":[]}`)
	},
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func item(seq uint64, id string) string {
	return fmt.Sprintf(`{"op":"write","seq":%d,"id":%q,"path":"/a","data":{"text":%q}}`, seq, id, id)
}

func show(w io.Writer, incarnation string, last, through uint64, items ...string) {
	say(w, fmt.Sprintf(`{"incarnation":%q,"first_seq":1,"last_seq":%d,"through_seq":%d,"has_more":%v,"label":{"level":"PUBLIC","compartments":[]},"items":[%s]}`,
		incarnation, last, through, through < last, strings.Join(items, ",")))
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{pages: map[string]int{}, held: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/grants/verify" {
			say(w, `{"grant":{"verbs":["read"]}}`)
			return
		}
		ns := strings.Split(r.URL.Path, "/")[3]
		since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
		h.mu.Lock()
		h.pages[ns]++
		n := h.pages[ns]
		h.mu.Unlock()
		answers[ns](h, w, since, n)
	}))
	t.Cleanup(h.Close)
	t.Cleanup(func() { close(h.held) })
	return h
}

// Issue 16: a mirror says how its source responds, takes bounded memory, has only what is consistent, and delays no
// other mirror.
func TestMirror_HostileSourceHarmsNoOther(t *testing.T) {
	t.Parallel()
	h, s := newHostile(t), start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a one")
	wants := map[string]struct {
		status int // of the sync
		state  string
		says   string
		has    []string
	}{
		"limits":    {503, "error", "responds 429: Too Many Requests", nil},
		"down":      {503, "error", "responds 503: Service Unavailable", nil},
		"redirects": {503, "error", "responds 302: Found", nil},
		"page":      {422, "error", "is no page of changes: invalid character '<'", nil},
		"escape":    {503, "error", "responds 500: ", nil},
		"cut":       {503, "error", "ended early", nil},
		"bomb":      {422, "error", `is encoded as "gzip", which was not asked for`, nil},
		"endless":   {413, "error", "has more than 33554432 bytes", nil},
		"stalls":    {202, "syncing", "not synced yet", nil},
		"elements":  {422, "error", "items: the JSON has more than 100000 values", nil},
		"deep":      {422, "error", "is no page of changes", nil},
		"backwards": {422, "error", "has sequence 4 behind 5", nil},
		"twice":     {422, "error", "has sequence 5 behind 5", nil},
		"below":     {422, "error", "has sequence 5 behind 5", []string{"a 5 a"}},
		"forever":   {200, "idle", "0 entries, 99 sequences behind", nil},
		"short":     {200, "suspended", "ends at sequence 0, and the mirror has read up to 9", []string{"a 9 a"}},
		"other":     {200, "suspended", "was made anew", []string{"a 1 a"}},
		"above":     {200, "suspended", "the label of", nil},
		"many":      {422, "error", "items: the array has too many elements", nil},
		"large":     {200, "idle", "1 ranges are missing", []string{"b 2 b"}},
		"far":       {422, "error", "above the limit", nil},
		"future":    {422, "error", "begins at sequence 900", nil},
	}
	var all sync.WaitGroup
	for name, want := range wants {
		s.must(t, http.StatusCreated, "PUT /v1/namespaces/of-"+name, `{"label":{"level":"SECRET"}}`)
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(
			`{"id":%q,"mode":"mirror","namespace":"of-%s","source":"%s/v1/namespaces/%s","depth":"full","credential":"x"}`, name, name, h.URL, name))
		all.Go(func() {
			wait := "60s"
			if name == "stalls" {
				wait = "100ms"
			}
			r := s.call(t, "POST /v1/subscriptions/"+name+"/sync?wait="+wait, "")
			if want.state == "suspended" && r.status == http.StatusConflict {
				return // its turn by the engine came before
			}
			if r.status != want.status && r.status != http.StatusAccepted { // a slow machine goes on without its caller
				t.Errorf("%s: %d %s", name, r.status, r.text)
			}
		})
	}
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	require.Equal(t, []string{"one 1 one"}, s.mirrorsOf(t, "high"))
	all.Wait()
	for name, want := range wants {
		st := s.untilMirrorIs(t, name, want.state)
		if st.field(t, "state") == want.state {
			require.Contains(t, st.field(t, "explanation"), want.says, name)
		}
		require.Less(t, len(st.text), 2000, name)
		require.Equal(t, want.has, s.hasOf(t, "of-"+name), name)
	}
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/sync?wait=30s", "")
}

// untilMirrorIs waits until a mirror has a state, and returns its status. The time of a source that stalls is over after 30 s.
func (s *running) untilMirrorIs(t *testing.T, name, state string) (st reply) {
	t.Helper()
	within(t, 3*patience, func() bool { // its turn by the engine may come meanwhile
		st = s.must(t, http.StatusOK, "GET /v1/subscriptions/"+name+"/status", "")
		return st.field(t, "state") == state || name == "stalls" && strings.Contains(st.text, "the time is over")
	}, name)
	return st
}

// hasOf returns the entries in mirrors of a namespace, as "id seq text".
func (s *running) hasOf(t *testing.T, ns string) (all []string) {
	t.Helper()
	r := s.must(t, http.StatusOK, "GET /v1/namespaces/"+ns+"/items?source=mirrored", "")
	items, ok := r.field(t, "items").([]any)
	require.True(t, ok)
	for _, is := range items {
		one, ok := is.(map[string]any)
		require.True(t, ok)
		data, _ := one["data"].(map[string]any)
		all = append(all, fmt.Sprint(one["id"], " ", one["seq"], " ", data["text"]))
	}
	return all
}
