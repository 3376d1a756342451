package sysevent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

var errDead = errors.New("the process is dead")

// truth is what was stored to be told of a subscription, in the order of revisions.
type truth struct {
	mu     sync.Mutex
	all    []sluice.Announcement
	doubts map[string]bool // ids of those whose write was not answered in time, so that they may be stored
}

func (tr *truth) doubt(sub *sluice.Subscription) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if n := len(sub.Untold); n > 0 {
		tr.doubts[sub.Untold[n-1].ID] = true
	}
}

func (tr *truth) enter(sub *sluice.Subscription) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if n := len(sub.Untold); n > 0 && sub.Untold[n-1].Revision == sub.Revision {
		tr.all = append(tr.all, sub.Untold[n-1])
	}
}

// life is a process that changes subscriptions and tells of it, and may die at a write.
type life struct {
	*subscription.Registry

	store     storetest.Rooms
	announcer *sysevent.Announcer
	truth     *truth

	mu    sync.Mutex
	left  int         // writes until it dies; below 0: it lives
	after bool        // it dies when the write is made, and not right before
	fails func() bool // the log refuses now; nil: never
}

func (l *life) write(do func() error) error {
	l.mu.Lock()
	left := l.left
	if left > 0 {
		l.left--
	}
	l.mu.Unlock()
	if left == 0 {
		return errDead
	}
	if left != 1 {
		return do()
	}
	if l.after {
		return errors.Join(do(), errDead)
	}
	return errDead
}

type records struct {
	*natsstore.Outbox

	l *life
}

func (r records) Put(ctx context.Context, id string, sub *sluice.Subscription, revision uint64) (stored uint64, err error) {
	err = r.l.write(func() (err error) {
		if stored, err = r.Subscriptions.Put(ctx, id, sub, revision); err == nil {
			made := *sub
			made.Revision = stored
			r.l.truth.enter(&made)
		} else if sluice.CodeOf(err) == sluice.Unavailable {
			r.l.truth.doubt(sub)
		}
		return err
	})
	return stored, err
}

func (r records) Retire(ctx context.Context, sub *sluice.Subscription) error {
	return r.l.write(func() error {
		err := r.Subscriptions.Retire(ctx, sub)
		if err == nil {
			r.l.truth.enter(sub)
		}
		return err
	})
}

func (r records) Told(ctx context.Context, sub *sluice.Subscription) error {
	return r.l.write(func() error { return r.Subscriptions.Told(ctx, sub) })
}

type dyingLog struct{ l *life }

func (d dyingLog) Publish(ctx context.Context, namespace string, events []sluice.Event) (stored []sluice.Stored, err error) {
	err = d.l.write(func() (err error) {
		if d.l.fails != nil && d.l.fails() {
			return sluice.Errorf(sluice.Unavailable, "no leader")
		}
		stored, err = d.l.store.Log.Publish(ctx, namespace, events)
		return err
	})
	return stored, err
}

type kept struct{ store storetest.Rooms }

func (kept) Expect(*sluice.Subscription) {}

func (k kept) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return k.store.Deliveries.EnsureConsumers(ctx, sub)
}

func (k kept) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return k.store.Deliveries.RemoveConsumers(ctx, sub)
}

func (k kept) Place(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	return k.store.Deliveries.Place(ctx, sub)
}

// world is a server of NATS on which processes live and die.
type world struct {
	server *natstest.Server
	sender *endpoint.Sender
	truth  *truth
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{server: natstest.New(t), truth: &truth{doubts: map[string]bool{}}}
	w.sender = endpoint.New(endpoint.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	t.Cleanup(w.sender.Close)
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: w.server})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Provision(t.Context()))
	return w
}

// begin begins a life that ends at a write; below 0: it does not.
func (w *world) begin(t *testing.T, left int, after bool) *life {
	t.Helper()
	store := storetest.Connect(t, natsstore.Options{Conn: w.server})
	l := &life{store: store, truth: w.truth, left: left, after: after}
	subs := records{store.Outbox(), l}
	l.announcer = sysevent.New(dyingLog{l}, sysevent.Options{Outbox: subs, Sweep: 50 * time.Millisecond})
	l.Registry = subscription.New(subscription.Deps{
		Subscriptions: subs, Reservations: natsstore.OpenBucket[subscription.Reservation](store.Store, streams.Reservations),
		Logs: store.Log, Endpoints: w.sender, Consumers: kept{store}, Replays: store.Deliveries.Replays(), ReplayLogs: store.Log,
		Ledger: ledger.New(store.Ledger(), slog.New(slog.DiscardHandler)), Announce: l.announcer, Now: time.Now,
	})
	return l
}

// settle runs the announcer until nothing is left to be told.
func (l *life) settle(t *testing.T) {
	t.Helper()
	stop := run(t, l.announcer)
	defer stop()
	require.Eventually(t, func() bool {
		waiting, err := l.store.Outbox().Waiting(t.Context())
		return err == nil && len(waiting) == 0
	}, time.Minute, time.Millisecond)
}

const wish = `{"pattern":"/a","endpoint":{"url":"https://192.0.2.1/hook"}}`

// acts is the life of a subscription: each act may be repeated.
func acts() []func(ctx context.Context, l *life) error {
	only := func(_ *sluice.Subscription, err error) error { return err }
	create := func(ctx context.Context, l *life) error {
		req, err := subscription.ParseRequest([]byte(wish))
		if err == nil {
			_, _, err = l.Put(ctx, "s", req, "ann")
		}
		return err
	}
	patch := func(text string) func(ctx context.Context, l *life) error {
		return func(ctx context.Context, l *life) error {
			return only(l.Patch(ctx, "s", []byte(`{"description":"`+text+`"}`), 0, "ann"))
		}
	}
	remove := func(ctx context.Context, l *life) error { return l.Delete(ctx, "s", "ann") }
	return []func(ctx context.Context, l *life) error{
		create,
		func(ctx context.Context, l *life) error { return only(l.Pause(ctx, "s", "bob")) },
		patch("one"),
		func(ctx context.Context, l *life) error { return only(l.Resume(ctx, "s", "bob")) },
		func(ctx context.Context, l *life) error { return l.Disable(ctx, "s", "it fails") },
		func(ctx context.Context, l *life) error { return only(l.Rotate(ctx, "s", 0, "ann")) },
		remove,
		create,
		patch("two"),
		func(ctx context.Context, l *life) error {
			sub, err := l.Get(ctx, "s")
			if err != nil {
				return err
			}
			_, err = l.Cancel(ctx, sub, func() error { return nil })
			return err
		},
		remove,
	}
}

// told returns what the log has of the subscription.
func (w *world) told(t *testing.T, store storetest.Rooms) (ids []string, revisions []uint64) {
	t.Helper()
	page, err := store.Log.Events(t.Context(), sluice.DefaultNamespace, model.EventQuery{Pattern: "/_sys/subscriptions/s", Limit: 1000})
	require.NoError(t, err)
	for _, ev := range page.Events {
		var data struct {
			Revision uint64 `json:"revision"`
		}
		require.NoError(t, json.Unmarshal(ev.Data, &data))
		ids, revisions = append(ids, ev.ID), append(revisions, data.Revision)
	}
	return ids, revisions
}

// requireAllTold checks that the log has everything that was stored to be told, once, in the order of revisions.
func (w *world) requireAllTold(t *testing.T, store storetest.Rooms) {
	t.Helper()
	ids, revisions := w.told(t, store)
	var wantIDs []string
	var wantRevisions []uint64
	for _, n := range w.truth.all {
		wantIDs, wantRevisions = append(wantIDs, n.ID), append(wantRevisions, n.Revision)
	}
	require.IsIncreasing(t, revisions)
	var sureIDs []string
	var sureRevisions []uint64
	for i, id := range ids {
		if !w.truth.doubts[id] || slices.Contains(wantIDs, id) {
			sureIDs, sureRevisions = append(sureIDs, id), append(sureRevisions, revisions[i])
		}
	}
	require.Equal(t, wantIDs, sureIDs)
	require.Equal(t, wantRevisions, sureRevisions)
}

// C32, S2-05, S2-132: a process that dies between any two writes leaves no change unannounced, and none is announced twice.
func TestOutbox_SurvivesDeathBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	const writes = 36 // of a life in which nothing goes wrong: more than there are
	for _, c := range []struct {
		name        string
		after, soon bool // it dies when the write is made; another process looks before the next change
		first, step int
	}{{"before, late", false, false, 1, 1}, {"before", false, true, 1, 3}, {"after, late", true, false, 2, 3}} {
		for n := c.first; n <= writes; n += c.step {
			t.Run(fmt.Sprintf("%d %s", n, c.name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				l := w.begin(t, n, c.after)
				look := func(*life) {}
				if c.soon {
					look = func(l *life) { l.settle(t) }
				}
				for _, act := range acts() {
					l = w.do(t, l, act, look)
				}
				l.settle(t)
				w.requireAllTold(t, l.store)
				require.GreaterOrEqual(t, len(w.truth.all), len(acts()))
			})
		}
	}
}

// do lets a process act; if it dies over it, the next process looks, does it again, and is returned.
func (w *world) do(t *testing.T, l *life, act func(context.Context, *life) error, look func(*life)) *life {
	t.Helper()
	err := act(t.Context(), l)
	if !l.dead() {
		if sluice.CodeOf(err) != sluice.SubscriptionMissing {
			require.NoError(t, err)
		}
		return l
	}
	if err != nil && sluice.CodeOf(err) != sluice.SubscriptionMissing {
		require.ErrorContains(t, err, errDead.Error())
	}
	l = w.begin(t, -1, false)
	look(l)
	if err := act(t.Context(), l); sluice.CodeOf(err) != sluice.SubscriptionMissing {
		require.NoError(t, err)
	}
	return l
}

func (l *life) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left == 0
}

// C32: processes that change the same subscription at once, while the log refuses half of what it is told and some of
// them die, have everything told in the order of revisions, and the last that is told is what is stored.
func TestOutbox_AscendsToTheStoredState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.begin(t, -1, false)
			require.NoError(t, acts()[0](t.Context(), first))
			var all sync.WaitGroup
			for i := range uint64(3) {
				l := w.begin(t, -1, false)
				l.isUnlucky(rand.New(rand.NewPCG(seed, i)))
				stop := run(t, l.announcer)
				all.Go(func() {
					defer stop()
					l.patchOften(t, i)
				})
			}
			all.Wait()
			last := w.begin(t, -1, false)
			last.settle(t)
			slices.SortFunc(w.truth.all, func(a, b sluice.Announcement) int { return cmp.Compare(a.Revision, b.Revision) }) // answers cross
			w.requireAllTold(t, last.store)
			sub, err := last.Get(t.Context(), "s")
			require.NoError(t, err)
			_, revisions := w.told(t, last.store)
			require.Equal(t, sub.Revision, revisions[len(revisions)-1])
		})
	}
}

// isUnlucky has a life end early, and its log refuse every other time.
func (l *life) isUnlucky(chance *rand.Rand) {
	l.left, l.after = 4+chance.IntN(40), chance.IntN(2) == 0
	var mu sync.Mutex
	l.fails = func() bool {
		mu.Lock()
		defer mu.Unlock()
		return chance.IntN(2) == 0
	}
}

func (l *life) patchOften(t *testing.T, who uint64) {
	t.Helper()
	for n := 0; n < 12 && !l.dead(); n++ {
		_, err := l.Patch(t.Context(), "s", fmt.Appendf(nil, `{"description":"%d-%d"}`, who, n), 0, "ann")
		slow := sluice.CodeOf(err) == sluice.Unavailable // of a machine with much else to do: the change may have been made or not
		if err != nil && !slow && !strings.Contains(err.Error(), errDead.Error()) {
			t.Error(err)
		}
	}
}
