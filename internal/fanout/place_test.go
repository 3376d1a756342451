package fanout_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// inWorld runs a test over a log of five messages of the path /x, and a cursor of shard 1 at 3.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.cursors[1] = fanout.Cursor{Seq: 3, Revision: 1}
		f(over(t, m))
	})
}

// A failure of the store or the log delays where a subscription begins, and does not change it.
func TestPlace_FailuresAreRetried(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Stored", "Bounds", "Cursor"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.attachedAt("a", 3)
				w.on(method, failing(3, sluice.Unavailable))
				a := sub("a", "/x", 1)
				w.join(a)
				_, _, err := w.router.Open(a)
				require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
				<-time.After(time.Minute)
				require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
				require.Equal(t, 4, w.count(method))
			})
		})
	}
}

// A subscription whose consumers cannot be replaced keeps them while the store is full, and only then.
func TestPlace_AdoptsWhenTheStoreHasRoom(t *testing.T) {
	t.Parallel()
	for code, own := range map[sluice.Code]bool{sluice.QuotaExceeded: true, sluice.Unavailable: false} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.on("Adopt", failing(1, code))
				a := sub("a", "/x", 4)
				w.join(a)
				<-time.After(500 * time.Millisecond) // before it is looked at again
				require.Equal(t, !own, w.router.Serves(a))
				<-time.After(aLittle)
				require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
			})
		})
	}
}

// A namespace that is being deleted holds up no other.
func TestPlace_DeletedNamespaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		gone := sub("c", "/x", 1)
		gone.Namespace = "gone"
		w.join(gone, sub("a", "/x", 4))
		require.Equal(t, map[string]int{"a": 1}, w.wokenUp())
		w.join(sub("e", "/x", 4))
		require.Equal(t, map[string]int{"a": 1, "e": 1}, w.wokenUp())
	})
}

// A server that stops while it asks about subscriptions serves none of them.
func TestPlace_EndsWithTheServer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.shares = func(*sluice.Subscription, fanout.Stored) bool { return false }
		w.on("Stored", failing(1<<40, sluice.Unavailable))
		w.join(sub("a", "/x", 1))
		w.stop()
		require.Empty(t, w.wokenUp())
	})
}

// A subscription that is to have consumers of its own gets them from where it is: from its shard's cursor if that
// accounts for it.
func TestPlace_ReleasesFromTheRightPosition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attached bool
		fails    int
		want     uint64
	}{
		"attached":                              {attached: true, want: 3},
		"attached, and its cursor was not read": {attached: true, fails: 1, want: 3},
		"with a position of its own":            {want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.on("Cursor", failing(c.fails, sluice.Unavailable))
				w.shares = func(*sluice.Subscription, fanout.Stored) bool { return false }
				w.positions["a"] = fanout.Position{Shared: true, Attached: c.attached, Floors: []uint64{1}}
				a, never := sub("a", "/x", 1), sub("c", "/x", 1)
				w.join(a, never)
				<-time.After(aLittle)
				require.False(t, w.router.Serves(a))
				require.Equal(t, map[string]fanout.Position{"a": {Floors: []uint64{c.want}}}, w.positions)
				w.publish("/x")
				w.seats["a"].Leave()
				synctest.Wait()
				require.Len(t, w.positions, 1)
				require.Equal(t, fanout.Position{Floors: []uint64{c.want}}, w.position(), "its consumers know")
			})
		})
	}
}

// What is stored may be ahead of a log that lost its end.
func TestPlace_BeginsAtTheEndOfAShorterLog(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.attachedAt("a", 9)
		w.positions["b"] = fanout.Position{Shared: true, Floors: []uint64{9}}
		a, b := sub("a", "/x", 1), sub("b", "/x", 1)
		w.join(a, b)
		w.publish("/x")
		require.Equal(t, "6 ", settleAll(t, w.open(a)))
		require.Equal(t, "6 ", settleAll(t, w.open(b)))
		<-time.After(aLittle)
		require.EqualValues(t, 6, w.cursor(0))
	})
}

// Each subject of a pattern has its own floor.
func TestPlace_KeepsTheFloorsOfTwoSubjects(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.publish("/x/y", "/x/y", "/x")
		w.positions["a"] = fanout.Position{Shared: true, Floors: []uint64{6, 4}}
		a := sub("a", "/x/**", 1)
		w.join(a)
		require.Equal(t, "5 7 8 ", settleAll(t, w.open(a)))
	})
}

// S4-25: events that an earlier process saw waiting are told if they left the log before this one read them.
func TestPlace_RemembersAwaitedEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored fanout.Position
		want   []uint64
	}{
		"in progress": {fanout.Position{Open: fanout.Waits{Seq: 3}, Next: fanout.Waits{Seq: 5}}, []uint64{3, 5}},
		"next":        {fanout.Position{Next: fanout.Waits{Seq: 5}}, []uint64{5, 5}},
		"none":        {fanout.Position{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.expire(6)
				c.stored.Shared, c.stored.Floors = true, []uint64{2}
				w.positions["a"] = c.stored
				a := sub("a", "/x", 1)
				a.Filter.Types = []string{"rare"}
				w.join(a)
				var told []uint64
				require.NoError(t, w.open(a).Look(t.Context(), nil, func(from, to uint64) error {
					told = append(told, from, to)
					return nil
				}))
				require.Equal(t, c.want, told)
				require.Len(t, w.wokenUp(), len(told)/2)
			})
		})
	}
}

// Subscriptions that are placed one after the other share one reader, whose place does not change, and ask once for a
// cursor; a stored position is not stored again.
func TestPlace_LaterOnesDisturbNoReader(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		for _, id := range []string{"a", "b", "c", "e"} {
			w.attachedAt(id, 5)
		}
		w.positions["b"] = fanout.Position{Shared: true, Floors: []uint64{5}}
		w.shares = func(s *sluice.Subscription, _ fanout.Stored) bool { return s.ID != "h" }
		a := sub("a", "/x", 1)
		w.join(a, sub("c", "/x", 1), sub("h", "/x", 1))
		require.Equal(t, []int{1, 1, 1}, []int{w.count("Follow"), w.count("Cursor"), w.count("Bounds")})
		w.created["k"] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{5}}}
		w.join(sub("k", "/x", 6))
		require.Equal(t, 1, w.count("Bounds"), "a new one of a known shard")
		w.created["d"] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{5}}}
		w.join(sub("d", "/x", 6))
		require.Equal(t, 2, w.count("Bounds"), "a new one of another shard")
		w.created["m"] = fanout.Stored{Known: true, New: true, Position: fanout.Position{Shared: true, Floors: []uint64{5}}}
		w.join(sub("e", "/x", 1), sub("m", "/x", 6))
		require.Equal(t, []int{1, 2, 3, 0}, []int{w.count("Follow"), w.count("Cursor"), w.count("Bounds"), w.count("Next")})
		standing, _ := w.router.Standing(a)
		require.Equal(t, fanout.Standing{Floor: 5, Handed: 5}, standing)
		<-time.After(3 * aLittle)
		require.Equal(t, 3, w.count("PutPosition"), "those that were created join their cursors")
		require.Zero(t, w.count("PutCursor"))
		w.publish("/none")
		<-time.After(3 * aLittle)
		require.Equal(t, []int{2, 2}, []int{w.count("PutCursor"), w.count("Cursor")}, "one for each shard")
	})
}

// A shard that comes back goes on from the cursor that another replica moved.
func TestPlace_ReadsTheCursorOfAShardAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.attachedAt("a", 3)
		a := sub("a", "/x", 1)
		w.join(a)
		require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
		w.seats["a"].Drop()
		w.publish(times(3)...)
		w.attachedAt("a", 7)
		w.join(a)
		require.Equal(t, "8 ", settleAll(t, w.open(a)))
		<-time.After(aLittle)
		require.EqualValues(t, 8, w.cursor(1))
	})
}

// A subscription that has left again before its commit gets nothing.
func TestPlace_OmitsDepartedSubscriptions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.router.Join(sub("a", "/x", 1), func() { t.Error("woken") }).Forget()
		w.router.Join(sub("c", "/x", 1), func() { t.Error("woken") }).Drop()
		w.join(sub("e", "/none", 6))
		w.publish("/x")
		<-time.After(aLittle)
		require.Zero(t, w.count("Next"))
		_, _, err := w.router.Open(sub("a", "/x", 1))
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	})
}

// Many that join ask once about all, if they are a quarter of all or more.
func TestPlace_ManyAskOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, then, asked int }{
		"few":            {0, 48, 48},
		"many":           {0, 49, 0},
		"a quarter":      {151, 49, 0},
		"less than that": {152, 49, 49},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				some := func(n int, prefix string) (all []*sluice.Subscription) {
					for i := range n {
						all = append(all, sub(prefix+strconv.Itoa(i), "/none", 1))
						w.positions[all[i].ID] = fanout.Position{Shared: true, Floors: []uint64{5}}
					}
					return all
				}
				w.join(some(c.first, "f")...)
				before := w.count("Stored")
				w.on("All", failing(1, sluice.Unavailable))
				w.join(some(c.then, "t")...)
				<-time.After(aLittle)
				require.Equal(t, c.asked, w.count("Stored")-before)
				require.Zero(t, w.count("Adopt"))
				require.True(t, w.router.Serves(sub("t0", "/none", 1)))
			})
		})
	}
}

// Members that join one by one while others are placed are placed together, except those that have left.
func TestPlace_TogetherAfterOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.on("Bounds", func() error {
			<-time.After(aLittle)
			return nil
		})
		before := w.count("Bounds")
		w.join(sub("c", "/none", 6))
		left := w.router.Join(sub("g", "/x", 4), func() {})
		w.router.Commit()
		left.Leave()
		later := []*sluice.Subscription{sub("a", "/x", 4), sub("e", "/x", 4), sub("i", "/x", 4)}
		for _, s := range later {
			w.join(s)
		}
		<-time.After(4 * aLittle)
		require.Equal(t, 2, w.count("Bounds")-before)
		require.Equal(t, 1+1+len(later), w.count("Stored")) // one is asked because it leaves
		for _, s := range later {
			require.Equal(t, "4 5 ", settleAll(t, w.open(s)))
		}
	})
}

// What has joined waits for its commit, whatever happens meanwhile.
func TestCommit_PlacesEarlierOnes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		var own atomic.Bool
		w.shares = func(*sluice.Subscription, fanout.Stored) bool { return !own.Load() }
		w.join(sub("c", "/none", 6))
		a := sub("a", "/x", 4)
		w.router.Join(a, func() {})
		w.router.Join(sub("e", "/x", 4), func() {})
		own.Store(true)
		<-time.After(aLittle)
		_, _, err := w.router.Open(a)
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
		own.Store(false)
		w.router.Commit()
		synctest.Wait()
		require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
	})
}

// Subscriptions move a number at a time, and whether they are to move is asked only after a change.
func TestRecheck_MovesSomeAtATime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		var share atomic.Bool
		var asked atomic.Int64
		w.shares = func(*sluice.Subscription, fanout.Stored) bool {
			asked.Add(1)
			return share.Load()
		}
		var all []*sluice.Subscription
		for i := range 70 {
			all = append(all, sub(fmt.Sprint("s", i), "/none", 6))
		}
		w.join(all...)
		share.Store(true)
		served := func() (n int) {
			synctest.Wait()
			for _, s := range all {
				if w.router.Serves(s) {
					n++
				}
			}
			return n
		}
		<-time.After(time.Second)
		require.Equal(t, 64, served())
		<-time.After(time.Second)
		require.Equal(t, 70, served())
		<-time.After(aLittle)
		before := asked.Load()
		<-time.After(5 * time.Second)
		require.Equal(t, before, asked.Load())
		require.False(t, w.open(all[0]).Clean(), "the runner before may have left records")
	})
}

// Changed settings move a subscription, long after the last one joined.
func TestRecheck_FollowsChangedSettings(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.shares = func(sub *sluice.Subscription, _ fanout.Stored) bool { return !sub.Policy.Dedicated }
		a := sub("a", "/none", 6)
		w.join(a)
		<-time.After(5 * time.Second)
		require.True(t, w.router.Serves(a))
		changed := *a
		changed.Policy.Dedicated = true
		w.join(&changed)
		<-time.After(5 * time.Second)
		require.False(t, w.router.Serves(a))
	})
}

// A log that no subscription uses is forgotten, and one that a subscription is about to use is not.
func TestPrune_KeepsTheLogOfJoinedSubscriptions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.join(sub("a", "/x", 6))
		w.seats["a"].Leave()
		other := sub("e", "/none", 6)
		other.Namespace = "o"
		w.join(other)
		<-time.After(aLittle)
		require.Equal(t, 1, w.router.Logs())
		w.seats["e"].Leave()
		w.join(sub("i", "/none", 6))
		w.router.Join(other, func() {})
		<-time.After(aLittle)
		require.Equal(t, 2, w.router.Logs())
	})
}
