package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// patternTests are about which streams a pattern matches.
func patternTests() []test {
	return []test{
		{"a pattern matches what its stars say", "S1-01 S1-10 S1-21 S1-22 S1-23 S1-24", quick, stars},
		{"no stream is called star", "S1-26", quick, noStar},
		{"streams that were there before wake on new events", "S1-139 S1-140 S1-136", quick, wereThere},
		{"an empty stream that was there before wakes on its first event", "S1-139 S1-140", quick, emptyWasThere},
		{"an empty stream is not pending", "S1-16 S1-28", quick, emptyIsNotPending},
		{"a stream that is made with messages wakes", "S1-10 S1-28 S1-136", quick, madeWithMessages},
	}
}

func stars(w *world) {
	patterns := map[string][]string{ // below the test's own prefix
		"agents/*":       {"agents/task-1", "agents/a.b"},
		"agents/**":      {"agents", "agents/task-1", "agents/a.b", "agents/foo/bar", "agents/foo/bar/baz", "agents/w/inbox", "agents/w/outbox"},
		"agents/*/inbox": {"agents/w/inbox"},
		"**/bar":         {"agents/foo/bar", "bar"},
		"agents/**/baz":  {"agents/foo/bar/baz"},
		"agents/task-1":  {"agents/task-1"},
		"agents/task":    {},
	}
	hooks := map[string]*receiver{}
	for pattern := range patterns {
		hooks[pattern] = w.receive("h"+number(len(hooks)), always(done()))
		w.subscribe(w.path(pattern), hooks[pattern])
	}
	for _, path := range []string{
		"agents", "agents/task-1", "agents/a.b", "agents/foo/bar", "agents/foo/bar/baz", "agents/w/inbox", "agents/w/outbox", "agentsx/task-1", "other/path", "bar",
	} {
		w.create(w.path(path), "[1]")
	}
	for pattern, want := range patterns {
		hooks[pattern].wait(len(want))
	}
	w.quiet(aMoment)
	for pattern, want := range patterns {
		var got []string
		for i := range hooks[pattern].all() {
			got = append(got, hooks[pattern].notice(i+1).Primary)
		}
		full := make([]string, 0, len(want))
		for _, path := range want {
			full = append(full, w.path(path))
		}
		require.ElementsMatch(w.t, full, got, pattern)
	}
}

func noStar(w *world) {
	r := w.send("PUT "+w.server.Base+w.path("a/%2A"), "[]")
	require.Equal(w.t, http.StatusBadRequest/100, r.status/100, "%s", r)
	r = w.send("PUT "+w.at(w.path("a/*")), "[]")
	require.Equal(w.t, http.StatusBadRequest/100, r.status/100, "%s", r)
}

func wereThere(w *world) {
	const streams = 20
	paths, tails := make([]string, streams), map[string]string{}
	for i := range paths {
		paths[i] = w.path("old/" + number(i))
		tails[paths[i]] = w.create(paths[i], "[1,2]")
	}
	hook := w.ok("hook")
	w.subscribe(w.path("old/*"), hook)
	w.quiet(aMoment)
	require.Empty(w.t, hook.all(), "what was there before is not new")
	for _, path := range paths {
		w.append(path, "3")
	}
	hook.wait(streams)
	for i := range paths {
		n := hook.notice(i + 1)
		w.shows(n.Streams, cursor{n.Primary, tails[n.Primary]})
		require.Equal(w.t, []string{n.Primary}, n.TriggeredBy)
		delete(tails, n.Primary)
	}
	require.Empty(w.t, tails, "each is woken")
}

func emptyWasThere(w *world) {
	path := w.path("old")
	w.create(path, "[]")
	hook := w.ok("hook")
	w.subscribe(path, hook)
	tail := w.append(path, "1")
	n := hook.notice(1)
	require.Equal(w.t, path, n.Primary)
	w.shows(w.report(n, claim(n, fields{"acks": acked(path, tail)})).Streams, cursor{path, tail})
}

func emptyIsNotPending(w *world) {
	path, hook := w.path("empty"), w.ok("hook")
	w.subscribe(path, hook)
	w.create(path, "[]")
	hook.stays(0, aMoment)
	w.append(path, "1")
	n := hook.notice(1)
	w.shows(n.Streams, cursor{path, nothing})
}

func madeWithMessages(w *world) {
	path, hook := w.path("full"), w.ok("hook")
	w.subscribe(path, hook)
	tail := w.create(path, "[1,2]")
	n := hook.notice(1)
	w.shows(n.Streams, cursor{path, nothing})
	w.shows(w.report(n, claim(n, fields{"acks": acked(path, tail), "done": true})).Streams, cursor{path, tail})
	hook.stays(1, aMoment)
}
