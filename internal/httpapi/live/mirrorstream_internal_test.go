package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// bench is a mirror m of namespace high in a real store, and its stream over HTTP.
type bench struct {
	*mirror.Keeper

	t       *testing.T
	core    *natsstore.Store
	store   *mirrorstore.Store
	caller  sluice.Caller
	handler *Handler
	url     string
	place   mirror.Place
}

func (*bench) Label(string) sluice.Label { return sluice.Label{} }

func (*bench) Incarnation(context.Context, string) (string, error) { return "own", nil }

func (*bench) Get(_ context.Context, id string) (sluice.Mirror, error) {
	if id != "m" {
		return sluice.Mirror{}, sluice.Errorf(sluice.SubscriptionMissing, "no such mirror")
	}
	return sluice.Mirror{ID: "m", Namespace: "high", Source: "low", Weight: 0.5}, nil
}

func newBench(t *testing.T, wait time.Duration) *bench {
	t.Helper()
	rooms := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, rooms.Provision(t.Context()))
	b := &bench{t: t, core: rooms.Store, store: mirrorstore.New(rooms.Store, 0), caller: sluice.Caller{Principal: sluice.Root}}
	b.Keeper = mirror.New(mirror.Deps{Copies: b.store, Namespaces: b}, mirror.Options{}).Keeper()
	b.handler = New(Deps{Mirrors: b, LongPoll: wait, UntilStop: context.WithCancel, UntilEnd: context.WithCancel})
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if !c.Response().Committed {
			_ = c.JSON(httpkit.Status(sluice.CodeOf(err)), httpkit.Public(err))
		}
	}
	for _, r := range b.handler.mirrorRoutes() {
		e.Add(r.Method, r.Path, r.Handle, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.SetRequest(c.Request().WithContext(model.WithCaller(c.Request().Context(), b.caller)))
				return next(c)
			}
		})
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	b.url = server.URL + "/v1/namespaces/high/items/stream?subscription=m"
	return b
}

// step stores entries of the copy that was begun at a second.
func (b *bench) step(begun int64, ids ...string) {
	b.t.Helper()
	b.place.Of, b.place.Begun, b.place.Incarnation = time.Unix(1, 0), time.Unix(begun, 0), "i"
	var entries []mirror.Entry
	for _, id := range ids {
		b.place.Watermark++
		entries = append(entries, mirror.Entry{MirroredAt: time.Unix(2, 0).UTC(), Change: sluice.ChangeOf(sluice.Event{
			Seq: b.place.Watermark, ID: id, Path: "/a", Type: "t", Source: "/s", Time: time.Unix(2, 0).UTC(), ContentType: "application/json", Data: []byte(`{"n":1}`),
		})})
	}
	revision, err := b.store.Commit(b.t.Context(), "m", mirror.Commit{Place: b.place, Entries: entries})
	require.NoError(b.t, err)
	b.place.Revision = revision
}

func (b *bench) purge() {
	b.t.Helper()
	require.NoError(b.t, b.store.Purge(b.t.Context(), "m", b.place.Revision))
	b.place = mirror.Place{}
}

// response is one whose body may still be coming.
type response struct {
	status int
	header http.Header
	body   io.Reader
}

func (b *bench) open(query string) response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+query, nil)
	require.NoError(b.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return response{resp.StatusCode, resp.Header, resp.Body}
}

// read returns the entries of a page as "id seq", the offset behind it, and whether it is up to date.
func (b *bench) read(status int, query string) (items []string, next string, upToDate bool) {
	b.t.Helper()
	resp := b.open(query)
	text, err := io.ReadAll(resp.body)
	require.NoError(b.t, err)
	require.Equal(b.t, status, resp.status, string(text))
	if status == http.StatusOK {
		items = itemsIn(b.t, string(text))
		require.Empty(b.t, resp.header.Get("ETag"))
	}
	return items, resp.header.Get("Stream-Next-Offset"), resp.header.Get("Stream-Up-To-Date") == "true"
}

func itemsIn(t *testing.T, text string) (items []string) {
	t.Helper()
	var all []sluice.MirroredItem
	require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	for _, item := range all {
		require.Equal(t, []any{"mirrored", "m", "low", 0.5}, []any{item.Source, item.Subscription, item.Origin, item.Weight})
		items = append(items, fmt.Sprint(item.Change.Event.ID, " ", item.Change.Event.Seq))
	}
	return items
}

// S3-116: the stream of a mirror has its entries in the order of their last change, each once, in bounded pages.
func TestMirrorStream_HasEachEntryOnceInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Millisecond)
	items, next, upToDate := b.read(http.StatusOK, "")
	require.Equal(t, []any{0, "0000000000000000_0000000000000000", true}, []any{len(items), next, upToDate}, "it has nothing yet")
	var ids []string
	for n := range mirrorPageItems / 2 {
		ids = append(ids, fmt.Sprint("e", n))
	}
	b.step(1, ids...)
	b.step(1, "x", "y")
	for n := range ids {
		ids[n] += "b"
	}
	b.step(1, ids...)
	b.step(1, "x")
	items, middle, upToDate := b.read(http.StatusOK, "&offset="+next)
	require.Len(t, items, mirrorPageItems)
	require.False(t, upToDate)
	require.NotContains(t, items, "x 501", "it has changed since")
	rest, end, upToDate := b.read(http.StatusOK, "&offset="+middle)
	require.True(t, upToDate)
	require.Equal(t, []string{"e499b 1002", "x 1003"}, rest)
	items, again, upToDate := b.read(http.StatusOK, "&offset=now")
	require.Equal(t, []any{0, end, true}, []any{len(items), again, upToDate})
	require.Less(t, middle, end, "offsets are ordered as texts")
	for _, wrong := range []string{"x", end[:33], end + "_1", end[:34] + "zz", "-1&offset=-1", "&live=sse", "-1&live=ever"} {
		b.read(http.StatusBadRequest, "&offset="+wrong)
	}
	b.read(http.StatusBadRequest, "&live=long-poll")
}

// S3-116: an offset is of one copy; in another one it is refused, though the log of the source is the same.
func TestMirrorStream_RefusesOffsetsOfAnotherCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Millisecond)
	b.step(1, "a", "b")
	_, old, _ := b.read(http.StatusOK, "&offset=-1")
	b.purge()
	b.read(http.StatusGone, "&offset="+old)
	b.step(7)
	b.step(7, "c")
	for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
		b.read(http.StatusGone, "&offset="+old+live)
	}
	items, next, _ := b.read(http.StatusOK, "&offset=-1")
	require.Equal(t, []string{"c 1"}, items)
	b.read(http.StatusGone, "&offset=0000000000009999"+next[16:]) // of data that a restored copy has lost
}

// follows returns the incarnation with which a feed begins, or with which its reader is refused.
func (b *bench) follows(code sluice.Code, query string) string {
	b.t.Helper()
	req := httptest.NewRequestWithContext(model.WithCaller(b.t.Context(), b.caller), http.MethodGet, "/?subscription=m"+query, nil)
	c := echo.New().NewContext(req, httptest.NewRecorder())
	c.SetParamNames("ns")
	c.SetParamValues("high")
	v, err := b.handler.openMirror(c)
	require.Equal(b.t, code, sluice.CodeOf(err), "%v", err)
	if err != nil {
		var e *sluice.Error
		require.ErrorAs(b.t, err, &e)
		return fmt.Sprint(e.Details["incarnation"])
	}
	v.Close()
	return v.Incarnation()
}

// A cursor is of one copy; with the incarnation of another one it is refused, though the log of the source is the same.
func TestMirrorFeed_RefusesCursorsOfAnotherCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Millisecond)
	b.step(1, "a", "b")
	old := b.follows("", "&after=0")
	require.Equal(t, old, b.follows("", "&after=1&incarnation="+old))
	require.Equal(t, old, b.follows(sluice.WindowExceeded, "&after=1&incarnation=i"), "of an earlier release")
	require.Equal(t, old, b.follows(sluice.WindowExceeded, "&after=9999&incarnation="+old), "of changes that the copy has lost")
	b.purge()
	b.step(7, "c")
	is := b.follows(sluice.WindowExceeded, "&after=1&incarnation="+old)
	require.Equal(t, is, b.follows("", "&after=0&incarnation="+is))
}

// Cursors that were assigned after a backup are assigned again, so those of the time before the restoration are refused.
func TestMirror_RestoredCopyIsAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Millisecond)
	b.step(1, "a")
	files, name := streamstore.New(b.core), streams.Names{}.Mirror()
	var data bytes.Buffer
	taken, err := files.SnapshotStream(t.Context(), name, &data)
	require.NoError(t, err)
	saved := b.place
	b.step(1, "lost")
	incarnation := b.follows("", "&after=0")
	_, offset, _ := b.read(http.StatusOK, "")
	require.NoError(t, b.core.JetStream().DeleteStream(t.Context(), name))
	_, err = files.RestoreStream(t.Context(), name, taken, &data)
	require.NoError(t, err)
	b.place = saved
	b.step(1, "b")
	b.step(1, "c")
	b.read(http.StatusGone, "&offset="+offset)
	is := b.follows(sluice.WindowExceeded, "&after=1&incarnation="+incarnation)
	require.Equal(t, is, b.follows("", "&after=1&incarnation="+is))
	require.NoError(t, b.core.Provision(t.Context()))
	require.Equal(t, is, b.follows("", "&after=1&incarnation="+is))
	items, _, _ := b.read(http.StatusOK, "&offset=-1")
	require.Len(t, items, 3)
}

// A long poll ends with an entry, or after a while with none.
func TestMirrorStream_LongPollWaitsForEntries(t *testing.T) {
	t.Parallel()
	short := newBench(t, time.Millisecond)
	short.step(1, "a")
	_, next, upToDate := short.read(http.StatusNoContent, "&offset=now&live=long-poll")
	require.True(t, upToDate)
	_, end, _ := short.read(http.StatusOK, "")
	require.Equal(t, end, next)

	long := newBench(t, time.Minute)
	long.step(1, "a")
	_, next, _ = long.read(http.StatusOK, "")
	polled := make(chan response, 1)
	go func() { polled <- long.open("&offset=" + next + "&live=long-poll") }()
	require.Eventually(t, func() bool { return long.handler.mirrors.Load() == 1 }, time.Minute, time.Millisecond)
	long.step(1) // without an entry
	long.step(1, "b")
	resp := <-polled
	text, err := io.ReadAll(resp.body)
	require.NoError(t, err)
	require.Equal(t, []string{"b 2"}, itemsIn(t, string(text)))
	require.NotEmpty(t, resp.header.Get("Stream-Cursor"))
	require.Equal(t, "true", resp.header.Get("Stream-Up-To-Date"))
}

// A read that waits ends when its reader loses access, without an entry.
func TestMirrorStream_WaitingReadEndsWithAccess(t *testing.T) {
	t.Parallel()
	b := newBench(t, 24*time.Hour)
	b.step(1, "a")
	index := authz.NewIndex()
	index.CaughtUp()
	grant := authz.Granted{Grant: sluice.Grant{
		ID: "g", Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbRead}, Object: sluice.Object{Namespace: "high"}, IssuedBy: sluice.Root, ExpiresAt: time.Now().Add(time.Hour),
	}}
	index.Set(streams.GrantKey("g"), authz.Record{Grant: &grant}, 1)
	b.handler.needs.Rights.Index, b.caller = index, sluice.Caller{Principal: "user:ann", Grant: "g"}
	_, next, _ := b.read(http.StatusOK, "")
	polled := make(chan response, 1)
	go func() { polled <- b.open("&offset=" + next + "&live=long-poll") }()
	require.Eventually(t, func() bool { return b.handler.mirrors.Load() == 1 }, time.Minute, time.Millisecond)
	revoked, now := grant, time.Now()
	revoked.RevokedAt = &now
	index.Set(streams.GrantKey("g"), authz.Record{Grant: &revoked}, 2)
	select {
	case resp := <-polled:
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, resp.status)
		require.Empty(t, resp.header.Get("Stream-Next-Offset"))
	case <-time.After(time.Minute):
		require.Fail(t, "it waits still")
	}
}

// Server-sent events have each page with the offset behind it, and end when the mirror is begun anew.
func TestMirrorStream_EventsEndWithTheCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Minute)
	b.step(1, "a")
	resp := b.open("&offset=-1&live=sse")
	require.Equal(t, "text/event-stream", resp.header.Get("Content-Type"))
	lines := bufio.NewReader(resp.body)
	event := func(kind string) string {
		var text [3]string
		for i := range text {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			text[i] = line
		}
		require.Equal(t, []string{"event: " + kind + "\n", "\n"}, []string{text[0], text[2]})
		return strings.TrimPrefix(text[1], "data:")
	}
	for _, want := range []string{"a 1", "b 2"} {
		require.Equal(t, []string{want}, itemsIn(t, event("data")))
		control := event("control")
		require.Regexp(t, `^{"streamNextOffset":"\d{16}_0{16}_[0-9a-f]{16}","streamCursor":"\d+","upToDate":true}\n$`, control)
		if want == "a 1" {
			b.step(1, "b")
		}
	}
	b.purge()
	b.step(7)
	b.step(7, "c")
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, string(rest), "nothing of the other copy")
	require.Eventually(t, func() bool { return b.handler.mirrors.Load() == 0 }, time.Minute, time.Millisecond)

	b.handler.mirrors.Store(mostMirrorFeeds)
	b.read(http.StatusTooManyRequests, "&offset=-1")
	require.EqualValues(t, mostMirrorFeeds, b.handler.mirrors.Load())
}

// A feed ends when its mirror is begun anew, also with the same log, which may have lost its end.
func TestMirrorFeed_EndsWithTheCopy(t *testing.T) {
	t.Parallel()
	v := mirrorView{incarnation: copyOf("i", 1)}
	synced := func(incarnation string, begun uint64) error {
		_, err := v.take(&model.MirrorChange{Begun: begun, Synced: &sluice.MirrorSynced{Incarnation: incarnation}})
		return err
	}
	require.NoError(t, synced("i", 1))
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(synced("i", 2)))
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(synced("j", 1)))
}
