package fanout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A cursor that another process stored is replaced by a later one only.
func TestCursor_OfAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is, want, then fanout.Cursor
	}{
		"earlier":  {fanout.Cursor{Seq: 4, Revision: 8}, fanout.Cursor{Seq: 5, Revision: 9}, fanout.Cursor{Seq: 8, Revision: 10}},
		"the same": {fanout.Cursor{Seq: 5, Revision: 8}, fanout.Cursor{Seq: 5, Revision: 9}, fanout.Cursor{Seq: 8, Revision: 10}},
		"later":    {fanout.Cursor{Seq: 7, Revision: 8}, fanout.Cursor{Seq: 7, Revision: 8}, fanout.Cursor{Seq: 8, Revision: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.attachedAt("a", 3)
				a := sub("a", "/x", 1)
				w.join(a)
				require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
				w.mu.Lock()
				w.cursors[1] = c.is
				w.mu.Unlock()
				<-time.After(aLittle)
				require.Equal(t, c.want, w.whole(1))
				w.publish("/none", "/none", "/none")
				<-time.After(aLittle)
				require.Equal(t, c.then, w.whole(1))
			})
		})
	}
}

// A cursor that could not be stored is stored later.
func TestCursor_IsStoredAfterAFailure(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.attachedAt("a", 3)
		a := sub("a", "/x", 1)
		w.join(a)
		settleAll(t, w.open(a))
		w.on("PutCursor", failing(1, sluice.Unavailable))
		<-time.After(3 * aLittle)
		require.EqualValues(t, 5, w.cursor(1))
	})
}

// Fault F8: a store that does not answer for the cursors of many shards holds up a subscription that joins for a moment only.
func TestCursor_SilentStoreHoldsUpNoMember(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.join(sub("b", "/y", 6), sub("c", "/y", 6)) // of two shards
		<-time.After(3 * aLittle)
		w.mu.Lock()
		w.silent = true
		w.mu.Unlock()
		w.publish("/none")
		<-time.After(aLittle)
		a := sub("a", "/x", 4)
		w.join(a)
		<-time.After(3 * time.Second)
		require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
	})
}

// Failures of the log delay a subscription that is behind, with pauses.
func TestRead_FailuresAreRetried(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Next", "Bounds", "Follow"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.expire(4)
				w.positions["a"] = fanout.Position{Shared: true, Floors: []uint64{1}, Open: fanout.Waits{Seq: 2}}
				a := sub("a", "/x", 1)
				began := time.Now()
				w.on("Next", func() error {
					w.on("Next", nil)
					w.on(method, failing(3, sluice.Unavailable))
					return w.called(method)
				})
				if method == "Follow" {
					w.on(method, failing(3, sluice.Unavailable))
				}
				w.join(a)
				w.publish("/x")
				src := w.open(a)
				var heard string
				for len(heard) < len("4 5 6 ") {
					heard += settleAll(t, src)
					<-time.After(time.Millisecond)
				}
				require.Equal(t, "4 5 6 ", heard)
				require.Greater(t, time.Since(began), 300*time.Millisecond)
				var told []uint64
				require.NoError(t, src.Look(t.Context(), nil, func(from, to uint64) error {
					told = append(told, from, to)
					return nil
				}))
				require.Equal(t, []uint64{2, 3}, told)
			})
		})
	}
}

// A router ends when all its readers have ended.
func TestRun_WaitsForItsReaders(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Next", "Follow"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				release := make(chan struct{})
				w.on(method, func() error {
					<-release
					return nil
				})
				w.join(sub("a", "/x", 1))
				ended := false
				go func() {
					w.stop()
					ended = true
				}()
				synctest.Wait()
				require.False(t, ended)
				close(release)
				synctest.Wait()
				require.True(t, ended)
			})
		})
	}
}

// A reader that waits for room goes on at once when it is to end, or when the subscription that had the room has gone.
func TestRun_EndsWhileTheQueuesAreFull(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *fanout.Source) string{
		"stopped":   func(w *world, _ *fanout.Source) string { w.stop(); return "it ended" },
		"forgotten": func(w *world, src *fanout.Source) string { w.seats["a"].Forget(); return settleAll(w.t, src) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				a, c := sub("a", "/x", 6), sub("c", "/y", 6)
				a.Policy.Window = 100
				w.join(a, c)
				<-time.After(aLittle)
				w.sized(17 << 20)
				w.publish(times(4)...)
				synctest.Wait()
				w.sized(0)
				w.publish("/y")
				src := w.open(c)
				require.Empty(t, settleAll(t, src))
				began := time.Now()
				require.NotEmpty(t, end(w, src))
				require.Zero(t, time.Since(began))
			})
		})
	}
}

// A source that another one took the place of can neither rest nor be looked after.
func TestSource_ReplacedOneDoesNotRest(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		a := sub("a", "/x", 6)
		w.join(a)
		first, second := w.open(a), w.open(a)
		require.False(t, first.Rest())
		w.publish("/x")
		require.Equal(t, "6 ", settleAll(t, second))
		require.Empty(t, w.wokenUp())
		w.on("Next", failing(9, sluice.Unavailable))
		w.publish(times(20)...)
		synctest.Wait()
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(second.Look(t.Context(), nil, nil)))
	})
}

// The cursor of a log that was deleted and created again claims nothing of the new log: what arrives while no process runs is delivered,
// whether the process was there when the log was created again or not.
func TestCursor_OfAnotherLogClaimsNothing(t *testing.T) {
	t.Parallel()
	for name, recreate := range map[string]func(*world) *world{
		"with the process": func(w *world) *world {
			w.join(sub("a", "/x", 1))
			settleAll(w.t, w.open(sub("a", "/x", 1)))
			<-time.After(3 * aLittle)
			w.seats["a"].Forget()
			w.renew("two")
			return w
		},
		"between processes": func(w *world) *world {
			w.join(sub("a", "/x", 1))
			settleAll(w.t, w.open(sub("a", "/x", 1)))
			<-time.After(3 * aLittle)
			w.stop()
			w.renew("two")
			return over(w.t, w.memory)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.id = "one"
				m.publish(times(20)...)
				w := recreate(over(t, m))
				require.EqualValues(t, 20, w.cursor(1))
				a := sub("a", "/x", 1)
				w.publish("/x", "/none")
				w.join(a)
				src := w.open(a)
				require.Equal(t, "1 ", settleAll(t, src))
				w.publish("/x")
				require.Equal(t, "3 ", settleAll(t, src))
				<-time.After(3 * aLittle)
				require.Equal(t, fanout.Cursor{Seq: 3, Log: "two", Revision: w.whole(1).Revision}, w.whole(1))
				w.stop()
				w.publish(times(40)...)
				w = over(t, m)
				w.join(a)
				heard := settleAll(t, w.open(a))
				require.Contains(t, heard, "4 5 6 ")
			})
		})
	}
}

// A restart before the cursor of the new log is stored loses nothing either, and the place of messages that are gone stays.
func TestCursor_OfAnotherLogIsLowered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, cursor uint64
		log, want     string
	}{
		"another log":                {1, 500, "one", "4 5 6 "},
		"another log that has moved": {6, 500, "one", "6 "},
		"an earlier one":             {6, 2, "one", "6 "},
		"an earlier build":           {1, 500, "", ""},
		"this log":                   {1, 5, "two", "6 "},
		"the log of the backup":      {1, 5, "zero", "6 "},
		"beyond the restored log":    {1, 500, "zero", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.publish(times(6)...)
				m.expire(c.first)
				m.id, m.former, m.cursors[1] = "two", "zero", fanout.Cursor{Seq: c.cursor, Log: c.log, Revision: 7}
				m.positions["a"] = fanout.Position{Shared: true, Attached: true, Floors: []uint64{3}}
				w := over(t, m)
				a := sub("a", "/x", 1)
				w.join(a)
				require.Equal(t, c.want, settleAll(t, w.open(a)))
				<-time.After(3 * aLittle)
				require.Equal(t, fanout.Cursor{Seq: 6, Log: "two", Revision: 8}, w.whole(1))
			})
		})
	}
}

// unanswered is a hook of PutCursor: the place 7 is stored, but no answer comes.
func (w *world) unanswered() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.cursors[1]; w.last == 7 && c.Seq < 7 {
		w.cursors[1] = fanout.Cursor{Seq: 7, Revision: c.Revision + 1}
	}
	return sluice.Errorf(sluice.Unavailable, "no answer")
}

// A place that was stored without an answer, or after the log lost its end, is not kept: new messages get its sequences.
func TestCursor_ClaimsNoLostEnd(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]func(w *world) (release func()){
		"without an answer": func(w *world) func() {
			w.on("PutCursor", w.unanswered)
			return func() {}
		},
		"late": func(w *world) func() {
			later := make(chan struct{})
			w.on("PutCursor", func() error {
				<-later
				return nil
			})
			return func() { close(later) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				t := w.t
				w.attachedAt("a", 3)
				a := sub("a", "/x", 1)
				w.join(a)
				require.Equal(t, "4 5 ", settleAll(t, w.open(a)))
				<-time.After(aLittle)
				require.EqualValues(t, 5, w.cursor(1))
				release := stored(w)
				w.publish("/none", "/none")
				<-time.After(aLittle)
				w.recreate(5)
				<-time.After(aLittle)
				w.on("PutCursor", nil)
				release()
				<-time.After(3 * aLittle)
				require.EqualValues(t, 5, w.cursor(1))
			})
		})
	}
}

// So it is with a place that was the first one to be stored.
func TestCursor_FirstOneClaimsNoLostEnd(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		t := w.t
		w.on("PutCursor", w.unanswered)
		w.attachedAt("a", 3)
		delete(w.cursors, 1)
		a := sub("a", "/x", 1)
		w.join(a)
		settleAll(t, w.open(a))
		w.publish("/none", "/none")
		<-time.After(aLittle)
		require.EqualValues(t, 7, w.cursor(1))
		w.recreate(5)
		<-time.After(aLittle)
		w.on("PutCursor", nil)
		<-time.After(3 * aLittle)
		require.EqualValues(t, 5, w.cursor(1))
	})
}
