package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// streaming are the options of an API that serves streams, too.
func (b *bench) streaming() httpapi.Options {
	opts := b.options()
	opts.Streams.Engine = durable.New(records.Paths{Log: b.store.Log}, time.Now)
	return opts
}

// A page with another content than the one that a reader has is not confirmed by a 304, although its stream and its range are the
// same: the reader's clearance or what is erased has changed, or the log is another one.
func TestStream_TagChangesWithTheVisibleContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.streaming()
	opts.Access = authz.NewIndex()
	ann := b.grantee(t, opts, sluice.VerbRead)
	const stream = "GET /streams/default/a"
	_, err := b.store.Log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{
		{ID: "1", Path: "/a", ContentType: "text/plain", Data: []byte(`1`), Extensions: map[string]string{sluice.AttributeClassification: "SECRET"}},
		{ID: "2", Path: "/a", ContentType: "text/plain", Data: []byte(`2`)},
	})
	require.NoError(t, err)
	read := func(want, tag string) string {
		t.Helper()
		a := b.must(t, http.StatusOK, stream, "", append([]string{"If-None-Match", tag}, ann...)...)
		require.Equal(t, want, a.text)
		tag = a.header.Get("ETag")
		b.must(t, http.StatusNotModified, stream, "", append([]string{"If-None-Match", tag}, ann...)...)
		return tag
	}
	low := read(`2`, `"none"`)

	secret := sluice.Profile{Principal: "user:ann", Clearance: sluice.Label{Level: sluice.LevelSecret}}
	opts.Access.Set(streams.ProfileKey(secret.Principal), authz.Record{Profile: &secret}, 2)
	high := read(`12`, low)

	opts.Access.Remove(streams.ProfileKey(secret.Principal), 3)
	require.Equal(t, low, read(`2`, high))

	stone := sluice.Tombstone{Namespace: sluice.DefaultNamespace, Path: "/a", UpTo: 2}
	opts.Access.Set(streams.TombstoneKey(stone.Namespace, stone.Path), authz.Record{Tombstone: &stone}, 4)
	b.must(t, http.StatusOK, stream, "", "If-None-Match", low)
}

func TestStream_TagChangesWithTheNamespacesLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(b.streaming()).Handler())
	t.Cleanup(b.http.Close)
	const stream = "GET /streams/acme/a"
	begin := func(data string) {
		b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
		_, err := b.store.Log.Publish(t.Context(), "acme", []sluice.Event{{ID: data, Path: "/a", ContentType: "text/plain", Data: []byte(data)}})
		require.NoError(t, err)
	}
	begin(`1`)
	old := b.must(t, http.StatusOK, stream, "")
	require.Equal(t, `1`, old.text)

	b.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme", "")
	begin(`2`)
	again := b.must(t, http.StatusOK, stream, "", "If-None-Match", old.header.Get("ETag"))
	require.Equal(t, `2`, again.text)
	require.Equal(t, old.header.Get("Stream-Next-Offset"), again.header.Get("Stream-Next-Offset"))
	b.must(t, http.StatusNotModified, stream, "", "If-None-Match", again.header.Get("ETag"))
}
