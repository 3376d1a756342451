package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/backup"
	"github.com/sluice-io/sluice/internal/bootstrap"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// offline returns the settings of commands on the store of a server that does not run.
func offline(t *testing.T, dir, url string) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.NATS.URL = dir, url
	if url == "" && natstest.Shared() {
		cfg.NATS.URL = onShared.ofServer(t, dir)
	}
	cfg.NATS.Prefix = natstest.Prefix(cfg.NATS.URL)
	return cfg
}

func backUp(t *testing.T, cfg config.Config) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	eventually(t, func() bool {
		m, err := bootstrap.Backup(t.Context(), cfg, dir, backup.Options{Keys: datadir.Kept()}, quiet())
		if err != nil && strings.Contains(err.Error(), "stop them first") {
			return false // the stopped server could not give its leases back in time; they expire
		}
		require.NoError(t, err)
		require.NotEmpty(t, m.Streams)
		return true
	}, "the leases of the stopped server end")
	return dir
}

func quiet() bootstrap.Options {
	return bootstrap.Options{Version: "test", Log: slog.New(slog.DiscardHandler)}
}

func restore(t *testing.T, dir string, cfg config.Config) error {
	t.Helper()
	_, err := bootstrap.Restore(t.Context(), cfg, dir, backup.Options{}, quiet())
	return err
}

// onURL has a server use another NATS.
func onURL(url string) func(*config.Config) {
	return func(c *config.Config) {
		if url != "" {
			c.NATS.URL = url
		}
	}
}

// A backup of one store is the same server in another: grants, secrets, parked lanes, and what was delivered.
func TestBackup_GoesOnElsewhere(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func() (from, to string){
		"from a data directory to another": func() (string, string) { return "", "" },
		"from a data directory to a NATS":  func() (string, string) { return "", natstest.Listening(t).ClientURL() },
		"from a NATS to a data directory":  func() (string, string) { return natstest.Listening(t).ClientURL(), "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := urls()
			board := refusing("bad-1")
			hook := hooktest.New(t, status(http.StatusInternalServerError, board.refuses))
			first, key := t.TempDir(), sharedKey
			withKey := func(url string) func(*config.Config) {
				return func(c *config.Config) { c.Secrets.Key = key; onURL(url)(c) }
			}
			s := start(t, first, withKey(from))
			sub := subscribe(t, s.api, wish(hook.URL, `"id":"w"`, `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":5}}`))
			ann := s.grant(t, "user:ann", "path:default/a/**", "read")
			put(t, s.api, "/bad", 1, 3)
			put(t, s.api, "/good", 1, 20)
			statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog <= 2 && st.InFlight == 0 })
			hook.Wait(21)
			root := s.token
			incarnation := s.must(t, http.StatusOK, "GET /v1/namespaces/default/observe", "").field(t, "incarnation")
			s.stop(t)

			saved := backUp(t, offline(t, first, from))
			second := t.TempDir()
			require.NoError(t, restore(t, saved, offline(t, second, to)))
			board.accept()
			s = start(t, second, withKey(to))
			require.Equal(t, root, s.token)
			require.NotEqual(t, incarnation, s.must(t, http.StatusOK, "GET /v1/namespaces/default/observe", "").field(t, "incarnation"), "sequences after the backup belong to other events")
			s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?pattern=/a/**", "", as(ann.token)...) // the grant counts
			s.must(t, http.StatusAccepted, "POST /v1/subscriptions/w/deliveries/bad-1/retry", "")
			put(t, s.api, "/good", 21, 21)
			requests := hook.Wait(25)
			ids := idsOf(requests)[21:]
			require.ElementsMatch(t, []string{"bad-1", "bad-2", "bad-3", "good-21"}, ids, "nothing is lost or comes again")
			receiver := receiverOf(t, s, sub, sub.Endpoint.Secret)
			for _, r := range requests {
				receive(t, receiver, r)
			}
			statusOf(t, s.api, sub.ID, idle)
		})
	}
}

// Subscriptions that share a reader go on in a restored log, however old their last attempts are.
func TestBackup_SharedReaderGoesOn(t *testing.T) {
	t.Parallel()
	from, to := natstest.Listening(t).ClientURL(), natstest.Listening(t).ClientURL()
	sharing := func(url string) func(*config.Config) {
		return func(c *config.Config) { c.Secrets.Key, c.NATS.URL, c.Webhooks.SharedAbove = sharedKey, url, 0 }
	}
	hook := hooktest.New(t, nil)
	s := start(t, t.TempDir(), sharing(from))
	subscribe(t, s.api, wish(hook.URL, `"id":"w"`))
	js := dial(t, from)
	lanes, err := js.KeyValue(t.Context(), jsNames(t).Bucket(streams.Lanes))
	require.NoError(t, err)
	reaches := func(key, content string) bool {
		entry, err := lanes.Get(t.Context(), key)
		return err == nil && strings.Contains(string(entry.Value()), content)
	}
	cursor := streams.CursorKey(sluice.DefaultNamespace, natsstore.ShardOf("w"))
	eventually(t, func() bool { return reaches("=lookout.w", cursor) }, "the shard's cursor counts for it")
	put(t, s.api, "/a", 1, 20)
	hook.Wait(20)
	eventually(t, func() bool {
		log, err := js.Stream(t.Context(), jsNames(t).EventsStream(sluice.DefaultNamespace))
		return err == nil && reaches(cursor, fmt.Sprintf(`"seq":%d}`, log.CachedInfo().State.LastSeq))
	}, "the cursor is stored behind the events")
	s.stop(t)
	require.NoError(t, js.DeleteStream(t.Context(), jsNames(t).Attempts()))

	saved := backUp(t, offline(t, t.TempDir(), from))
	require.NoError(t, restore(t, saved, offline(t, t.TempDir(), to)))
	s = start(t, t.TempDir(), sharing(to))
	put(t, s.api, "/a", 21, 21)
	require.Equal(t, numbered("/a", 21), idsOf(hook.Wait(21))[20])
	statusOf(t, s.api, "w", idle)
	require.Len(t, hook.Requests(), 21)
}

// A store that is served, or not empty, is left alone, and so is a directory that has something else in it.
func TestBackup_RefusesADirectoryInUse(t *testing.T) {
	t.Parallel()
	nats := natstest.Listening(t).ClientURL()
	s := start(t, t.TempDir(), onURL(nats))
	_, err := bootstrap.Backup(t.Context(), offline(t, t.TempDir(), nats), filepath.Join(t.TempDir(), "b"), backup.Options{}, quiet())
	require.ErrorContains(t, err, "stop them first")
	s.stop(t)

	embedded := t.TempDir()
	s = start(t, embedded, nil)
	_, err = bootstrap.Backup(t.Context(), offline(t, embedded, ""), filepath.Join(t.TempDir(), "b"), backup.Options{}, quiet())
	require.ErrorContains(t, err, "used by another process")
	s.stop(t)

	saved := backUp(t, offline(t, embedded, ""))
	require.ErrorContains(t, restore(t, saved, offline(t, embedded, "")), "restore into an empty one")
	require.ErrorContains(t, restore(t, saved, offline(t, t.TempDir(), nats)), "restore into an empty one")
	_, err = bootstrap.Backup(t.Context(), offline(t, embedded, ""), saved, backup.Options{}, quiet())
	require.ErrorContains(t, err, "is not empty")
	_, err = bootstrap.Backup(t.Context(), offline(t, t.TempDir(), ""), filepath.Join(t.TempDir(), "b"), backup.Options{}, quiet())
	require.ErrorContains(t, err, "is empty: nothing to back up")
}

// A backup that was cut off, torn or changed is refused before anything is made.
func TestRestore_RefusesDamage(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	s := start(t, from, nil)
	put(t, s.api, "/a", 1, 5)
	s.stop(t)
	for name, tt := range map[string]struct {
		file   string
		change func(string) string
		why    string
	}{
		"cut off":          {backup.ManifestFile, nil, "is incomplete"},
		"torn":             {"streams/" + jsNames(t).EventsStream("default") + ".tar.s2", func(text string) string { return text[:len(text)/2] }, "is damaged"},
		"a flipped bit":    {"streams/" + jsNames(t).BucketStream("access") + ".tar.s2", func(text string) string { return text[:40] + string(text[40]^1) + text[41:] }, "is damaged"},
		"a missing stream": {"streams/" + jsNames(t).Ledger() + ".tar.s2", nil, "no such file"},
		"another key":      {"keys/secrets.key", func(string) string { return "c2hhcmVkIGJ5IHRoZSBzZXJ2ZXJzIG9mIGEgdGVzdCE=\n" }, "is damaged"},
		"a foreign stream": {backup.ManifestFile, func(text string) string { return strings.Replace(text, `"`+jsNames(t).Ledger()+`"`, `"OTHERS"`, 1) }, "not a stream of Sluice"},
		"a way out":        {backup.ManifestFile, func(text string) string { return strings.Replace(text, `"root.token"`, `"../root.token"`, 1) }, "not a file name"},
		"a later format":   {backup.ManifestFile, func(text string) string { return strings.Replace(text, `"format": 1`, `"format": 2`, 1) }, "format 2 is unknown"},
	} {
		saved := backUp(t, offline(t, from, ""))
		file := filepath.Join(saved, tt.file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file))
		if tt.change != nil {
			require.NoError(t, os.WriteFile(file, []byte(tt.change(string(text))), 0o600))
		}
		to := t.TempDir()
		require.ErrorContains(t, restore(t, saved, offline(t, to, "")), tt.why, name)
		entries, err := os.ReadDir(to)
		require.NoError(t, err)
		require.Empty(t, entries, name)
	}
}

// Only its owner reads a backup, and the keys stay out of it on request.
func TestBackup_KeepsKeysPrivate(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	s := start(t, from, nil)
	s.stop(t)
	saved := backUp(t, offline(t, from, ""))
	require.NoError(t, filepath.WalkDir(saved, func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
	bare := filepath.Join(t.TempDir(), "bare")
	m, err := bootstrap.Backup(t.Context(), offline(t, from, ""), bare, backup.Options{}, quiet())
	require.NoError(t, err)
	require.Empty(t, m.Keys)
	to := t.TempDir()
	require.NoError(t, restore(t, bare, offline(t, to, "")))
	err = app.Run(t.Context(), offlineServer(t, to), app.Options{})
	require.ErrorContains(t, err, "secrets", "without the key nothing is opened")
}

func offlineServer(t *testing.T, dir string) config.Config {
	t.Helper()
	cfg := offline(t, dir, "")
	cfg.HTTP.Listen, cfg.NATS.Listen = "127.0.0.1:0", "none"
	return cfg
}
