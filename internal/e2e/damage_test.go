package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// flipStored flips a bit of the last place of a text in the blocks of a stream of a server that is stopped. Without its index
// NATS builds the state of the stream anew from the blocks.
func flipStored(t *testing.T, dir, stream, text string, withIndex indexed) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "nats", "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	require.NoError(t, err)
	for _, file := range blocks {
		if !withIndex {
			require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(file), "index.db")))
		}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if at := bytes.LastIndex(data, []byte(text)); at >= 0 {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(file, data, 0o600))
			return
		}
	}
	require.Fail(t, "not found", "%q is in no block of %s", text, stream)
}

// damageOf waits until something is known to be damaged, and returns it.
func (s *running) damageOf(t *testing.T, stream string) (found []sluice.Damage) {
	t.Helper()
	require.Eventually(t, func() bool {
		storage, err := s.api.Storage(t.Context())
		require.NoError(t, err)
		found = nil
		for _, d := range storage.Damage {
			if d.Stream == stream {
				d.FoundAt = time.Time{}
				found = append(found, d)
			}
		}
		return len(found) > 0
	}, patience, 10*time.Millisecond)
	return found
}

// remembers waits until the server has noted outside NATS how far a stream is, and the bucket in it,
// if any: when it stops it has only two seconds for that.
func (s *running) remembers(t *testing.T, stream, bucket string) {
	t.Helper()
	is, err := dial(t, s.at.NATS).Stream(t.Context(), stream)
	require.NoError(t, err)
	noted := func(file, key string) bool {
		var all map[string]struct {
			Last uint64 `json:"last"`
		}
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		return err == nil && json.Unmarshal(text, &all) == nil && all[key].Last >= is.CachedInfo().State.LastSeq
	}
	eventually(t, func() bool {
		return noted("counts.json", stream) && (bucket == "" || noted("records.json", bucket))
	}, stream+" is remembered")
}

// Issue 13, F7: a paused subscription whose pause is lost is not delivered to until an operator resumes it; with the index, the
// server starts without the record that cannot be read.
func TestDamage_LostPauseDeliversNothing(t *testing.T) {
	t.Parallel()
	for _, withIndex := range []indexed{false, true} {
		t.Run(fmt.Sprint("index ", withIndex), func(t *testing.T) {
			t.Parallel()
			hook := hooktest.New(t, nil)
			s := start(t, t.TempDir(), nil)
			s.subscribe(t, "paused", hook.URL)
			s.subscribe(t, "whole", hook.URL)
			s.tells(t, "before")
			require.Eventually(t, func() bool { return len(hook.Requests()) == 2 }, patience, time.Millisecond)
			_, err := s.api.PauseSubscription(t.Context(), "paused")
			require.NoError(t, err)
			s.tells(t, "while it is paused")
			require.Eventually(t, func() bool { return len(hook.Requests()) == 3 }, patience, time.Millisecond)
			watch := faulttest.Begin(t, "record-damaged")
			s.remembers(t, jsNames(t).BucketStream("subscriptions"), "subscriptions")
			s.stop(t)
			flipStored(t, s.dir, jsNames(t).BucketStream("subscriptions"), `"state":"paused"`, withIndex)

			s = start(t, s.dir, nil)
			found := s.damageOf(t, jsNames(t).BucketStream("subscriptions"))
			s.tells(t, "after")
			require.Eventually(t, func() bool { return len(hook.Requests()) == 4 }, patience, time.Millisecond, "what is whole goes on")
			require.Contains(t, keysOf(found), "paused")
			if withIndex {
				require.Equal(t, sluice.DamageUnreadable, found[0].Kind)
				return
			}
			sub, err := s.api.Subscription(t.Context(), "paused")
			require.NoError(t, err)
			require.Equal(t, sluice.Disabled, sub.State)
			require.Contains(t, sub.Reason, "damaged")

			s.stop(t) // it stays so
			s = start(t, s.dir, nil)
			_, err = s.api.ResumeSubscription(t.Context(), "paused")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(hook.Requests()) == 6 }, patience, time.Millisecond)
			s.stop(t) // and who resumed it is believed
			s = start(t, s.dir, nil)
			sub, err = s.api.Subscription(t.Context(), "paused")
			require.NoError(t, err)
			require.Equal(t, sluice.Active, sub.State)
			watch.End(faulttest.Arrived{Events: 6}, "3 events for each of two subscriptions; the one with the lost pause gets nothing until it is resumed")
			require.NoError(t, s.api.ForgetDamage(t.Context()))
			storage, err := s.api.Storage(t.Context())
			require.NoError(t, err)
			require.Empty(t, storage.Damage)
			require.NoFileExists(t, filepath.Join(s.dir, "damage.json"))
		})
	}
}

// Issue 13, F5: a log that lost its end is known, its sequences are not given out again, and the ledger has it.
func TestDamage_ShorterLogIsToldAndMovesOn(t *testing.T) {
	t.Parallel()
	hook := hooktest.New(t, nil)
	s := start(t, t.TempDir(), nil)
	s.subscribe(t, "all", hook.URL)
	for i := range 20 {
		s.tells(t, fmt.Sprintf("marker-%02d", i))
	}
	hook.Wait(20)
	before := s.lastSeq(t)
	watch := faulttest.Begin(t, "log-cut")
	s.remembers(t, jsNames(t).EventsStream("default"), "")
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", false)
	s = start(t, s.dir, nil)
	watch.Recovered()
	found := s.damageOf(t, jsNames(t).EventsStream("default"))
	require.Len(t, found, 1)
	require.Equal(t, sluice.DamageShorter, found[0].Kind)
	require.Equal(t, before, found[0].To)
	s.tells(t, "later")
	require.Greater(t, s.lastSeq(t), before)
	require.NotEmpty(t, s.entries(t, client.AuditQuery{Action: sluice.ActionStorageDamage}))
	last := hook.Wait(21)[20]
	watch.Resumed()
	require.Contains(t, string(last.Body), "later")
	require.Len(t, s.systemEvents(t, sluice.TypeStorageDamaged), 1)
	watch.End(faulttest.Arrived{Events: 21, Twice: len(hook.Requests()) - 21}, "13 events that were delivered before are gone from the log; it is told, and their sequences are not given out again")
}

// Issue 13, F5: a message that cannot be read is found by a start, at its ease, and on request.
func TestDamage_UnreadableEventIsFound(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for i := range 20 {
		s.tells(t, fmt.Sprintf("marker-%02d", i))
	}
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", true)
	s = start(t, s.dir, nil)
	found := s.damageOf(t, jsNames(t).EventsStream("default"))
	require.Len(t, found, 1)
	require.Equal(t, sluice.DamageUnreadable, found[0].Kind)
	require.Equal(t, found[0].From, found[0].To)

	begun, err := s.api.VerifyStorage(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		storage, err := s.api.Storage(t.Context())
		v := storage.Verification
		return err == nil && !v.StartedAt.Before(begun.StartedAt) && !v.EndedAt.IsZero() && v.Read >= 20 && len(storage.Damage) == 1
	}, patience, 10*time.Millisecond, "nothing is found twice")
}

func keysOf(all []sluice.Damage) (keys []string) {
	for _, d := range all {
		keys = append(keys, d.Key)
	}
	return keys
}

func (s *running) subscribe(t *testing.T, id, url string) {
	t.Helper()
	_, _, err := s.api.PutSubscription(t.Context(), id, map[string]any{"pattern": "/a/**", "endpoint": map[string]string{"url": url}})
	require.NoError(t, err)
}

func (s *running) tells(t *testing.T, data string) {
	t.Helper()
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":"/a/1","type":"t","data":%q}`, data))
}

func (s *running) lastSeq(t *testing.T) uint64 {
	t.Helper()
	ns, err := s.api.Namespace(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	return ns.Usage.LastSeq
}

// Issue 13, F7: a grant whose revocation is lost gives nothing, and what is stored about access afterwards is good again.
func TestDamage_LostRevocationGivesNothing(t *testing.T) {
	t.Parallel()
	for _, withIndex := range []indexed{false, true} {
		t.Run(fmt.Sprint("index ", withIndex), func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), nil)
			g := s.grant(t, "user:ann", "scope:default", "read")
			s.must(t, http.StatusOK, "GET /v1/namespaces/default", "", as(g.token)...)
			s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
			s.remembers(t, jsNames(t).BucketStream("access"), "access")
			s.stop(t)
			flipStored(t, s.dir, jsNames(t).BucketStream("access"), `"revoked`, withIndex)
			s = start(t, s.dir, nil)
			require.NotEmpty(t, s.damageOf(t, jsNames(t).BucketStream("access")))
			s.must(t, http.StatusUnauthorized, "GET /v1/namespaces/default", "", as(g.token)...)
			fresh := s.grant(t, "user:ann", "scope:default", "read")
			s.must(t, http.StatusOK, "GET /v1/namespaces/default", "", as(fresh.token)...)
		})
	}
}

// indexed says whether NATS finds the index of a stream's blocks.
type indexed bool
