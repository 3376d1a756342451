package wakesuite

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is a receiver's answer to a notice. The zero value is 200 without a body.
type answer struct {
	status   int
	body     string
	location string
	hold     <-chan struct{} // it is sent once this is closed
	cut      bool            // the connection is cut instead
}

// script returns a receiver's answer to its nth request, the first being 1. It is called with the
// receiver's lock held, and must not block.
type script func(n int) answer

// always gives every request the same answer.
func always(a answer) script { return func(int) answer { return a } }

// inTurn gives one answer after another, and then repeats the last one.
func inTurn(all ...answer) script {
	return func(n int) answer { return all[min(n, len(all))-1] }
}

// done is the answer of a receiver that has processed everything.
func done() answer { return answer{body: `{"done":true}`} }

// request is a received request.
type request struct {
	method string
	header http.Header
	body   []byte
	at     time.Time

	mu    sync.Mutex
	ended time.Time // when it was answered or given up
	gone  bool      // the sender gave it up
}

// open reports whether the request still waits for its answer.
func (r *request) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended.IsZero()
}

// givenUp returns when the sender gave the request up.
func (r *request) givenUp() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended, r.gone
}

func (r *request) end(gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.gone = time.Now(), gone
}

// receiver is an endpoint of webhooks. mu guards the fields below it. Methods that do not fail the
// test are safe for concurrent use.
type receiver struct {
	w      *world
	name   string
	says   script
	server *httptest.Server
	over   chan struct{}

	mu       sync.Mutex
	secrets  map[string][]string // by id of the subscription; a later subscription with the same id has another secret
	requests []*request
}

// receive starts a receiver. When the test ends it checks that all received requests were
// permitted.
func (w *world) receive(name string, says script) *receiver {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	return w.receiveOn(l, name, says)
}

func (w *world) receiveOn(l net.Listener, name string, says script) *receiver {
	w.t.Helper()
	r := &receiver{w: w, name: name, says: says, over: make(chan struct{}), secrets: map[string][]string{}}
	r.server = httptest.NewUnstartedServer(r)
	_ = r.server.Listener.Close()
	r.server.Listener = l
	r.server.Start()
	w.t.Cleanup(func() {
		close(r.over)
		r.server.Close()
		for _, err := range r.faults() {
			w.t.Errorf("receiver %s: %v", name, err)
		}
	})
	return r
}

// ok starts a receiver that accepts every notice.
func (w *world) ok(name string) *receiver { return w.receive(name, always(answer{})) }

func (r *receiver) url() string { return r.server.URL + "/hook" }

// know lets the receiver verify a subscription's notices. Requests that came before it can still be
// verified.
func (r *receiver) know(sub subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets[sub.ID] = append(r.secrets[sub.ID], sub.Secret)
}

// ServeHTTP records a request and answers it by the script.
func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	got := &request{method: req.Method, header: req.Header, body: data, at: time.Now()}
	r.mu.Lock()
	r.requests = append(r.requests, got)
	a := r.says(len(r.requests))
	r.mu.Unlock()
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-r.over:
		case <-req.Context().Done():
			got.end(true)
			return
		}
	}
	got.end(false)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	if a.location != "" {
		rw.Header().Set("Location", a.location)
	}
	if a.body != "" {
		rw.Header().Set("Content-Type", "application/json")
	}
	rw.WriteHeader(max(a.status, http.StatusOK))
	_, _ = io.WriteString(rw, a.body)
}

// all returns the requests so far.
func (r *receiver) all() []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*request(nil), r.requests...)
}

// wait returns the requests when there are n.
func (r *receiver) wait(n int) []*request {
	r.w.t.Helper()
	return r.waitFor(n, patience)
}

func (r *receiver) waitFor(n int, limit time.Duration) []*request {
	r.w.t.Helper()
	r.w.until(limit, func() bool { return len(r.all()) >= n }, "receiver %s got %v requests of %d", r.name, counted{r}, n)
	return r.all()
}

// counted formats the number of a receiver's requests when a message is made.
type counted struct{ *receiver }

// String returns the number.
func (c counted) String() string { return strconv.Itoa(len(c.all())) }

// stays checks that for some time no request comes beyond n. It takes d, after the nth has come.
func (r *receiver) stays(n int, d time.Duration) {
	r.w.t.Helper()
	r.wait(n)
	r.w.quiet(d)
	require.Len(r.w.t, r.all(), n, "receiver %s", r.name)
}

// notice waits for the nth request, verifies its signature, and returns its notice.
func (r *receiver) notice(n int) notice {
	r.w.t.Helper()
	got, err := r.read(r.wait(n)[n-1])
	require.NoError(r.w.t, err)
	return got
}

// wakes returns the IDs of the wakes that the requests are about.
func (r *receiver) wakes() map[string]bool {
	r.w.t.Helper()
	ids := map[string]bool{}
	for _, req := range r.all() {
		n, err := r.read(req)
		require.NoError(r.w.t, err)
		ids[n.WakeID] = true
	}
	return ids
}

// epochs returns the epochs of the requests, each once: a busy server may repeat a notice before it
// sees the answer.
func (r *receiver) epochs() []int64 {
	r.w.t.Helper()
	var all []int64
	for _, req := range r.all() {
		n, err := r.read(req)
		require.NoError(r.w.t, err)
		all = append(all, n.Epoch)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// secretsOf returns the secrets of a consumer's subscription.
func (r *receiver) secretsOf(consumer string) []string {
	sub, _, _ := strings.Cut(consumer, ":")
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.secrets[sub]
}

// read returns the notice of a request. It returns an error unless the notice is correctly signed.
func (r *receiver) read(req *request) (notice, error) {
	n := notice{request: req}
	if err := json.Unmarshal(req.body, &n); err != nil {
		return n, fmt.Errorf("%s: %w", req.body, err)
	}
	err := errors.New("it is of no subscription that is known")
	for _, secret := range r.secretsOf(n.ConsumerID) {
		if err = verify(secret, req.header.Get("Webhook-Signature"), req.body, req.at); err == nil {
			return n, nil
		}
	}
	return n, fmt.Errorf("%s: %w", req.body, err)
}

// verify checks a signature in the four steps of S1. An empty secret matches nothing. at is the
// time of arrival, by the sender's clock.
func verify(secret, header string, body []byte, at time.Time) error {
	stamp, signature, ok := strings.Cut(header, ",")
	stamp, isTime := strings.CutPrefix(stamp, "t=")
	signature, isHash := strings.CutPrefix(signature, "sha256=")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if !ok || !isTime || !isHash || err != nil {
		return fmt.Errorf("Webhook-Signature %q is not t=…,sha256=…", header)
	}
	if age := at.Sub(time.Unix(seconds, 0)).Abs(); age > 5*time.Minute {
		return fmt.Errorf("signed %s ago", age)
	}
	given, err := hex.DecodeString(signature)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	if secret == "" || !hmac.Equal(mac.Sum(nil), given) {
		return errors.New("the signature is not the subscription's")
	}
	return nil
}

// faults returns violations of the invariants S1, S2 and S8: every request is signed; a wake_id has
// one epoch; a later wake_id of a consumer has a higher epoch.
func (r *receiver) faults() []error {
	var errs []error
	epochs, last := map[string]int64{}, map[string]int64{}
	for _, req := range r.all() {
		n, err := r.read(req)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		epoch, known := epochs[n.WakeID]
		switch {
		case known && epoch != n.Epoch:
			errs = append(errs, fmt.Errorf("wake_id %s came with the epochs %d and %d", n.WakeID, epoch, n.Epoch))
		case !known && n.Epoch <= last[n.ConsumerID]:
			errs = append(errs, fmt.Errorf("consumer %s: a new wake has epoch %d after %d", n.ConsumerID, n.Epoch, last[n.ConsumerID]))
		}
		epochs[n.WakeID] = n.Epoch
		last[n.ConsumerID] = max(last[n.ConsumerID], n.Epoch)
	}
	return errs
}
