package streamstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// damaged is a store whose files a test damages while its server is stopped.
type damaged struct {
	storetest.Rooms

	streams *streamstore.Store
	server  *natstest.Server
	dir     string
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	dir := t.TempDir()
	server := natstest.NewWith(t, natsd.Options{StoreDir: dir, DontListen: true})
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	return &damaged{store, streamstore.New(store.Store), server, dir}
}

// flip flips a bit of the last place of a text in the blocks of a stream, with the server stopped meanwhile; without its
// index the server builds its state anew from the blocks.
func (d *damaged) flip(t *testing.T, stream, text string, withIndex indexed) {
	t.Helper()
	again := d.Reconnected()
	d.server.Stop(t)
	blocks, err := filepath.Glob(filepath.Join(d.dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	require.NoError(t, err)
	flipped := false
	for _, file := range blocks {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if at := bytes.LastIndex(data, []byte(text)); at >= 0 {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(file, data, 0o600))
			flipped = true
		}
		if !withIndex {
			require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(file), "index.db")))
		}
	}
	require.True(t, flipped, "%q is in no block of %s", text, stream)
	d.server.Start(t)
	require.Eventually(t, func() bool { return d.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
	<-again // its handler ends those who read
}

func (d *damaged) publish(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		_, err := d.Log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{
			Path: "/a", ID: fmt.Sprintf("event-%04d", i), Type: "t", Source: "/s", Time: time.Now(), Data: fmt.Appendf(nil, `"data-%04d"`, i),
		}})
		require.NoError(t, err)
	}
}

func (d *damaged) counts(t *testing.T) map[string]streamstore.Count {
	t.Helper()
	counts, err := d.streams.Counts(t.Context())
	require.NoError(t, err)
	return counts
}

const defaultLog = "EVENTS_" + sluice.DefaultNamespace

// Issue 13, F5: a message that cannot be read is found by reading all of them, and nothing else is.
func TestVerify_FindsUnreadableMessages(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.publish(t, 1, 20)
	require.NoError(t, d.Log.ErasePath(t.Context(), sluice.DefaultNamespace, "/b", 100))
	before := d.counts(t)
	d.flip(t, defaultLog, "data-0007", true)
	for name := range d.counts(t) {
		found, err := d.streams.Verify(t.Context(), name, func(uint64, uint64) {})
		require.NoError(t, err)
		if name == defaultLog {
			require.Equal(t, []sluice.Damage{{Kind: sluice.DamageUnreadable, Stream: name, Namespace: sluice.DefaultNamespace, Path: "/a", From: 7, To: 7}}, found)
		} else {
			require.Empty(t, found, name)
		}
	}
	require.Empty(t, d.streams.CompareCounts(before, d.counts(t)), "the server does not know")
}

// Issue 13, F5: a log that ends before where it ended is known, and gives out no sequence twice.
func TestCounts_TellThatALogIsShorter(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	d.publish(t, 1, 20)
	before := d.counts(t)
	require.Empty(t, d.streams.CompareCounts(before, d.counts(t)))
	d.flip(t, defaultLog, "data-0007", false)
	require.Equal(t, []sluice.Damage{{Kind: sluice.DamageShorter, Stream: defaultLog, Namespace: sluice.DefaultNamespace, From: 7, To: 20}},
		d.streams.CompareCounts(before, d.counts(t)))

	require.NoError(t, d.streams.MoveOn(t.Context(), defaultLog, 20))
	require.Equal(t, uint64(6), d.counts(t)[defaultLog].Count, "what is whole stays, and nothing is added")
	d.publish(t, 21, 21)
	last, err := d.Log.LastSeq(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.Equal(t, uint64(21), last)
	require.Empty(t, d.streams.CompareCounts(d.counts(t), d.counts(t)))
}

// Issue 13, F5: streams without a message are moved on too, and the ledger, in which what it is moved on with stays and is no entry.
func TestMoveOn_MovesEveryStream(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	ledger := d.Ledger()
	write := func(id string) {
		require.NoError(t, ledger.Append(t.Context(), &sluice.LedgerEntry{ID: id, Namespace: sluice.DefaultNamespace, Action: "subscription.create", At: time.Now()}))
	}
	write("before")
	for name, count := range d.counts(t) {
		require.NoError(t, d.streams.MoveOn(t.Context(), name, count.Last+1500), name)
		after := d.counts(t)[name]
		require.Equal(t, count.Last+1500, after.Last, name)
		if name != (streams.Names{}).Ledger() {
			require.Equal(t, count.Count, after.Count, name)
		}
	}
	write("after")
	entries, next, err := ledger.Entries(t.Context(), model.LedgerQuery{Limit: 10})
	require.NoError(t, err)
	require.Zero(t, next)
	require.Len(t, entries, 2)
	require.EqualValues(t, 1502, entries[0].Seq)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(d.streams.MoveOn(t.Context(), streams.Names{}.Ledger(), 1_000_000)))
}

// Issue 13, F7: an older record of a key, one that cannot be read and one that is lost are told from those that were
// changed or deleted since.
func TestRecords_TellStaleEntries(t *testing.T) {
	t.Parallel()
	for _, withIndex := range []indexed{true, false} {
		t.Run(fmt.Sprint("index ", withIndex), func(t *testing.T) {
			t.Parallel()
			d := newDamaged(t)
			bucket := natsstore.OpenBucket[map[string]string](d.Store, streams.EventTypes)
			put := func(key, value string) {
				_, revision, _ := bucket.Get(t.Context(), key)
				_, err := bucket.Put(t.Context(), key, map[string]string{"v": value}, revision)
				require.NoError(t, err)
			}
			for _, key := range []string{"whole", "older", "deleted"} {
				put(key, "first-of-"+key)
			}
			put("older", "second-of-older")
			put("lost", "first-of-lost")
			require.NoError(t, bucket.Delete(t.Context(), "deleted", 0))
			was, err := d.streams.Records(t.Context(), streams.EventTypes)
			require.NoError(t, err)
			require.Equal(t, map[string]uint64{"whole": 1, "older": 4, "lost": 5}, was.Revisions)
			put("later", "first-of-later")
			is, err := d.streams.Records(t.Context(), streams.EventTypes)
			require.NoError(t, err)
			require.Empty(t, d.streams.CompareRecords(streams.EventTypes, was, is))

			was = is
			d.flip(t, "KV_"+streams.EventTypes, "second-of-older", withIndex)
			all, err := bucket.List(t.Context(), ">")
			require.NoError(t, err, "what is whole is read")
			is, err = d.streams.Records(t.Context(), streams.EventTypes)
			require.NoError(t, err)
			stream, found := "KV_"+streams.EventTypes, d.streams.CompareRecords(streams.EventTypes, was, is)
			if withIndex {
				require.Len(t, all, 3)
				require.Equal(t, []sluice.Damage{{Kind: sluice.DamageUnreadable, Stream: stream, Key: "older", From: 4, To: 4}}, found)
				return
			}
			require.Equal(t, []sluice.Damage{
				{Kind: sluice.DamageLost, Stream: stream, Key: "later", From: 7, To: 7},
				{Kind: sluice.DamageLost, Stream: stream, Key: "lost", From: 5, To: 7},
				{Kind: sluice.DamageStale, Stream: stream, Key: "deleted", From: 3, To: 7},
				{Kind: sluice.DamageStale, Stream: stream, Key: "older", From: 2, To: 4},
			}, found)
		})
	}
}

// indexed says whether NATS finds the index of a stream's blocks.
type indexed bool
