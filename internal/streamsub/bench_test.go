package streamsub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	patience   = time.Minute
	sweepEvery = 100 * time.Millisecond // of the processes
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notice is a webhook's body.
type notice struct {
	Wake       string           `json:"wake_id"`
	Generation uint64           `json:"generation"`
	Streams    []streamsub.Told `json:"streams"`
	Callback   string           `json:"callback_url"`
	Token      string           `json:"callback_token"`

	By string `json:"-"` // which process sent it
}

// bench is a store, and what becomes of the notices that processes send.
type bench struct {
	store storetest.Rooms
	logs  streamsub.Logs

	mu     sync.Mutex
	sent   []notice
	answer func(ctx context.Context, n notice) streamsub.Answer
	gone   map[sluice.Path]bool
	shows  func(sluice.Path) model.Decision
	holds  model.Decision
	book   []string // what was accounted for

	most    int               // subscriptions that are admitted; 0: any number
	entered map[string]string // URLs, by the id under which they are counted
	pace    time.Duration     // what a wake has to wait for the rate of its webhook
	looks   int               // how often it was asked who owns a subscription
	held    int               // how often one had to
	shaken  []string          // URLs that were asked

	agreed    *sluice.Agreement
	disagreed error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, store.Provision(t.Context()))
	return &bench{
		store: store, logs: store.Log, gone: map[sluice.Path]bool{}, holds: model.Pass, entered: map[string]string{},
		answer: func(context.Context, notice) streamsub.Answer { return streamsub.Answer{OK: true} },
		shows:  func(sluice.Path) model.Decision { return model.Pass },
	}
}

// change changes how the bench behaves.
func (b *bench) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// all returns the notices so far.
func (b *bench) all() []notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// wait returns the notices as soon as there are so many.
func (b *bench) wait(t *testing.T, n int) []notice {
	t.Helper()
	require.Eventually(t, func() bool { return len(b.all()) >= n }, patience, 2*time.Millisecond, "%d notices", n)
	return b.all()
}

func (b *bench) publish(t *testing.T, path sluice.Path) uint64 {
	t.Helper()
	stored, err := b.store.Log.Publish(t.Context(), "default", []sluice.Event{{
		Namespace: "default", Path: path, ID: uuid.NewString(), Type: "t", Source: "/x", Data: []byte("1"),
	}})
	require.NoError(t, err)
	return stored[0].Seq
}

// process is an engine that runs until it is stopped.
type process struct {
	*streamsub.Engine

	bench *bench
	name  string
	owner owner
	stop  func()
}

// owner says what a process owns: all, or nothing.
type owner struct{ yes *bool }

func (p *process) own(yes bool) {
	p.bench.change(func() { *p.owner.yes = yes })
	<-p.Changed()
}

func (b *bench) process(t *testing.T, name string, owns bool) *process {
	t.Helper()
	p := &process{bench: b, name: name, owner: owner{&owns}}
	p.Engine = streamsub.New(streamsub.Deps{
		Records: records{natsstore.OpenBucket[streamsub.Subscription](b.store.Store, streams.StreamWakes)},
		Logs:    b.logs, Streams: b, Post: p, Gate: b, Owns: p, Account: b, Quota: b, Pace: b,
		Keys:   keys{[]byte("a secret of 32 bytes, for them all")},
		Offset: func(seq uint64) string { return strconv.FormatUint(seq, 10) },
	}, streamsub.Options{BaseURL: "http://here/streams", SweepEvery: sweepEvery})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) }) // it ends with ctx
	p.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(p.stop)
	return p
}

type keys [][]byte

func (k keys) WakeKeys() [][]byte { return k }

// Owns says whether this process serves the subscriptions.
func (p *process) Owns(string) bool {
	p.bench.mu.Lock()
	defer p.bench.mu.Unlock()
	p.bench.looks++
	return *p.owner.yes
}

// Check refuses nothing.
func (p *process) Check(context.Context, string) error { return nil }

// Handshake agrees as the bench is told to.
func (p *process) Handshake(_ context.Context, sub *sluice.Subscription) (*sluice.Agreement, error) {
	p.bench.mu.Lock()
	defer p.bench.mu.Unlock()
	p.bench.shaken = append(p.bench.shaken, sub.Endpoint.URL)
	return p.bench.agreed, p.bench.disagreed
}

// Enter refuses the subscriptions beyond the bench's bound.
func (b *bench) Enter(_ context.Context, sub *sluice.Subscription) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most > 0 && len(b.entered) >= b.most {
		return sluice.Errorf(sluice.QuotaExceeded, "there are too many")
	}
	b.entered[sub.ID] = sub.Endpoint.URL
	return nil
}

// Leave takes Enter back.
func (b *bench) Leave(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entered, id)
}

// Take lets a request go unless the bench has it wait.
func (b *bench) Take(*sluice.Subscription, time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pace > 0 {
		b.held++
	}
	return b.pace
}

// Post notes a notice and answers as the bench is told to.
func (p *process) Post(ctx context.Context, _ string, body []byte, _ time.Time, timeout time.Duration) (streamsub.Answer, error) {
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		return streamsub.Answer{}, err
	}
	n.By = p.name
	p.bench.mu.Lock()
	p.bench.sent = append(p.bench.sent, n)
	answer := p.bench.answer
	p.bench.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return answer(ctx, n), nil
}

// Tail returns where a path ends.
func (b *bench) Tail(ctx context.Context, ns string, path sluice.Path) (uint64, bool, error) {
	b.mu.Lock()
	gone := b.gone[path]
	b.mu.Unlock()
	tail, err := b.store.Log.PathTail(ctx, ns, path)
	return tail, tail > 0 && !gone, err
}

// Visible shows all.
func (*bench) Visible(_ context.Context, _ sluice.Caller, _ string, _ sluice.Path, upTo uint64) (uint64, error) {
	return upTo, nil
}

// Append publishes a line.
func (b *bench) Append(ctx context.Context, ns string, path sluice.Path, message []byte, _ sluice.Caller) error {
	b.mu.Lock()
	gone := b.gone[path]
	b.mu.Unlock()
	if gone {
		return sluice.Errorf(sluice.NotFound, "stream not found")
	}
	_, err := b.store.Log.Publish(ctx, ns, []sluice.Event{{Namespace: ns, Path: path, ID: uuid.NewString(), Type: "t", Source: "/x", Data: message}})
	return err
}

// Made notes what was written down.
func (b *bench) Made(_ context.Context, s *streamsub.Subscription) (func(error), error) {
	return b.note("made " + s.ID)
}

// Removed notes what was written down.
func (b *bench) Removed(_ context.Context, s *streamsub.Subscription, by sluice.Principal) (func(error), error) {
	return b.note("removed " + s.ID + " by " + string(by))
}

func (b *bench) note(what string) (func(error), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.book = append(b.book, what)
	return func(err error) { b.change(func() { b.book = append(b.book, "not "+what+": "+err.Error()) }) }, nil
}

// Shows says what the bench is told to.
func (b *bench) Shows(_ sluice.Caller, _ string, path sluice.Path, _ uint64) model.Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shows(path)
}

// Writes lets every caller.
func (b *bench) Writes(sluice.Caller, string, sluice.Path) model.Decision { return model.Pass }

// Holds says what the bench is told to.
func (b *bench) Holds(*sluice.Subscription) model.Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holds
}

// records is the bucket.
type records struct {
	natsstore.Bucket[streamsub.Subscription]
}

// Watch tells of all subscriptions.
func (r records) Watch(ctx context.Context, change func(string, *streamsub.Subscription, uint64)) error {
	return r.Bucket.Watch(ctx, ">", func(e natsstore.Entry[streamsub.Subscription]) {
		switch e.Change {
		case natsstore.Set:
			change(e.Key, &e.Value, e.Revision)
		case natsstore.Removed:
			change(e.Key, nil, e.Revision)
		case natsstore.CaughtUp:
		}
	})
}

var key = streamsub.Key{Namespace: "default", ID: "s"}

// subscribe makes the subscription.
func (p *process) subscribe(t *testing.T, c streamsub.Config) streamsub.Subscription {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	var s streamsub.Subscription
	require.Eventually(t, func() bool {
		made, created, err := p.Create(t.Context(), key, c, sluice.Caller{Principal: "user:a"}, func(*streamsub.Subscription) bool { return true })
		s = made
		return err == nil && created
	}, patience, 10*time.Millisecond, "as soon as it runs")
	return s
}

// webhook is a configuration.
func webhook() streamsub.Config {
	return streamsub.Config{Kind: streamsub.Webhook, Pattern: "events/*", URL: "http://x"}
}

// pull is a configuration.
func pull() streamsub.Config {
	return streamsub.Config{Kind: streamsub.PullWake, Pattern: "events/*", WakeStream: "wake/pool"}
}

// stored returns the subscription as it is stored.
func (p *process) stored(t *testing.T) streamsub.Subscription {
	t.Helper()
	s, err := p.Get(t.Context(), key)
	require.NoError(t, err)
	return s
}

func done(n notice) streamsub.Call {
	c := streamsub.Call{Kind: streamsub.Webhook, Token: n.Token, Wake: n.Wake, Generation: n.Generation, Done: true}
	for _, s := range n.Streams {
		var seq uint64
		_, _ = fmt.Sscan(s.Tail, &seq) // 0 is refused
		c.Acks = append(c.Acks, streamsub.Ack{Path: s.Path, Offset: seq})
	}
	return c
}
