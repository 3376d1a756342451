package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/waketest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// workers is the endpoint of a model test, and who is woken there: every notice is shown to the witness, and is answered
// with a 2xx, with done, with 500, late or never.
type workers struct {
	hook *hooktest.Server

	mu      sync.Mutex
	random  *rand.Rand
	witness *waketest.Witness
	secret  string
	notices map[sluice.Path][]wake.Notice
	tokens  map[string]string // of a consumer's epoch the last
	floors  map[sluice.Path][]uint64
	newest  map[string]time.Time // when the last epoch of a consumer was noticed first
	late    []chan struct{}
	calm    bool // every notice is answered with done
	arrived chan struct{}
	errs    []error
	seen    map[string]int
}

func newWorkers(t *testing.T, seed uint64) *workers {
	t.Helper()
	w := &workers{
		random: rand.New(rand.NewPCG(seed, 1)), witness: waketest.New(), notices: map[sluice.Path][]wake.Notice{}, tokens: map[string]string{},
		floors: map[sluice.Path][]uint64{}, newest: map[string]time.Time{}, arrived: make(chan struct{}, 1), seen: map[string]int{},
	}
	w.hook = hooktest.New(t, w.answer)
	return w
}

// answer takes a notice.
func (w *workers) answer(r hooktest.Request) hooktest.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n wake.Notice
	if err := json.Unmarshal(r.Body, &n); err != nil {
		w.wrong(err)
	}
	if err := (&webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{w.secret}}).Verify(r.Header, r.Body); err != nil {
		w.wrong(fmt.Errorf("S8: %w", err))
	}
	if err := w.witness.Notice(&waketest.Notice{
		Consumer: n.ConsumerID, Life: w.life(&n), Epoch: n.Epoch, WakeID: n.WakeID, Offsets: offsetsOf(n.Streams), Overtook: w.overtaken(&n, r),
	}); err != nil {
		w.wrong(err)
	}
	if !slices.ContainsFunc(w.notices[n.Primary], func(k wake.Notice) bool { return k.Epoch >= n.Epoch }) {
		w.newest[n.ConsumerID] = time.Now()
	}
	w.notices[n.Primary] = append(w.notices[n.Primary], n)
	if key := epochOf(&n); w.tokens[key] == "" {
		w.tokens[key] = n.Token
	}
	select {
	case w.arrived <- struct{}{}:
	default: // one is enough
	}
	return w.decide()
}

// overtaken reports whether a notice is repeated and was signed before the last epoch was noticed: that notice overtook it.
func (w *workers) overtaken(n *wake.Notice, r hooktest.Request) bool {
	known := slices.ContainsFunc(w.notices[n.Primary], func(k wake.Notice) bool { return k.WakeID == n.WakeID })
	at, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Webhook-Signature"), "t="), ",")
	signed, err := strconv.ParseInt(at, 10, 64)
	later := slices.ContainsFunc(w.notices[n.Primary], func(k wake.Notice) bool { return k.Epoch > n.Epoch })
	return known && later && err == nil && signed <= w.newest[n.ConsumerID].Unix()
}

func (w *workers) decide() hooktest.Answer {
	n := w.random.IntN(20)
	if w.calm {
		n = 6
	}
	switch {
	case n < 6:
		w.seen["2xx"]++
		return hooktest.Answer{}
	case n < 11:
		w.seen["done"]++
		return hooktest.Answer{Body: `{"done":true}`}
	case n < 15:
		w.seen["500"]++
		return hooktest.Answer{Status: 500}
	case n < 16:
		w.seen["hang"]++
		return hooktest.Answer{Hang: true}
	}
	w.seen["late"]++
	until := make(chan struct{})
	w.late = append(w.late, until)
	return hooktest.Answer{Until: until, Body: []string{"", `{"done":true}`}[n%2]}
}

// release lets one late answer go, or all of them.
func (w *workers) release(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; n > 0 && len(w.late) > 0; n-- {
		close(w.late[0])
		w.late = w.late[1:]
	}
}

func (w *workers) wrong(err error) { w.errs = append(w.errs, err) }

// life is how often the stream had been deleted when the consumer of a notice was made.
func (w *workers) life(n *wake.Notice) string {
	floors := w.floors[n.Primary]
	for i, floor := range floors {
		if n.Epoch <= floor {
			return strconv.Itoa(i)
		}
	}
	return strconv.Itoa(len(floors))
}

// of returns the notices of a stream's consumer.
func (w *workers) of(path sluice.Path) []wake.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notices[path])
}

func (w *workers) token(n *wake.Notice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokens[epochOf(n)]
}

func (w *workers) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
}

func epochOf(n *wake.Notice) string { return fmt.Sprintf("%s %d", n.ConsumerID, n.Epoch) }

// offsetsOf returns offsets of streams that are never deleted but with their consumers: of others, those of the next begin
// anew.
func offsetsOf(streams []model.WakeAcked) map[sluice.Path]uint64 {
	offsets := map[sluice.Path]uint64{}
	for _, s := range streams {
		if slices.Contains(passingPaths(), s.Path) {
			continue
		}
		offsets[s.Path] = 0
		if len(s.Offset) > 16 {
			offsets[s.Path], _ = strconv.ParseUint(s.Offset[:16], 10, 64)
		}
	}
	return offsets
}
