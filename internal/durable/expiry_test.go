package durable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// expires waits until the stream's lifetime is over.
func (u *user) expires(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := u.engine.Head(t.Context(), u.key())
		return sluice.CodeOf(err) == sluice.NotFound
	}, patience, 10*time.Millisecond)
}

// tell publishes an event on the stream's path, as no append does.
func (u *user) tell(t *testing.T, data string) uint64 {
	t.Helper()
	ack, err := u.space.js.Publish(t.Context(), "events.space"+strings.ReplaceAll(string(path), "/", "."), []byte(data))
	require.NoError(t, err)
	return ack.Sequence
}

// What is published on the path of an expired stream is a stream of its own, as after a deletion; what came before the expiry stays
// hidden.
func TestTTL_LaterEventsAreAnotherStream(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	ttl := time.Second
	u.create(t, durable.Create{Lifetime: durable.Lifetime{TTL: &ttl}, Body: []byte("in time,")})
	last := u.tell(t, "told in time,")
	st, err := u.engine.Standing(t.Context(), u.key())
	require.NoError(t, err)
	require.Equal(t, durable.Standing{Last: last}, st)

	u.expires(t)
	_, err = u.engine.Read(t.Context(), u.key(), durable.Place{}, everything)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	st, err = u.engine.Standing(t.Context(), u.key())
	require.NoError(t, err)
	require.Equal(t, durable.Standing{Start: last, Gone: true}, st)

	first := u.tell(t, "late,")
	require.Equal(t, "late,", u.text(t))
	st, err = u.engine.Standing(t.Context(), u.key())
	require.NoError(t, err)
	require.Equal(t, durable.Standing{Last: first, Start: first - 1}, st)

	_, _, err = u.engine.Create(t.Context(), u.key(), durable.Create{ContentType: plain, Lifetime: durable.Lifetime{TTL: &ttl}})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "a stream without a lifetime is there")
	_, err = u.append(t.Context(), durable.Append{ContentType: durable.DefaultType, Body: []byte("appended,")})
	require.NoError(t, err)
	require.Equal(t, "late,appended,", u.text(t))
	require.NoError(t, u.engine.Delete(t.Context(), u.key()))
	_, err = u.engine.Head(t.Context(), u.key())
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// A stream that was created with an expiry in the past has expired with its first messages.
func TestExpiry_PastOneHidesTheFirstMessages(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	past := time.Now().Add(-time.Hour)
	u.create(t, durable.Create{Lifetime: durable.Lifetime{ExpiresAt: &past}, Body: []byte("never,")})
	_, err := u.engine.Head(t.Context(), u.key())
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	u.tell(t, "late,")
	require.Equal(t, "late,", u.text(t))
}

// A follower of a stream that expires goes on with what is published on its path.
func TestFollow_GoesOnBehindAnExpiry(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	ttl := time.Second
	u.create(t, durable.Create{Lifetime: durable.Lifetime{TTL: &ttl}})
	f := u.joined(t, everything)
	u.expires(t)
	u.tell(t, "late")
	got, page := next(t, f)
	require.Equal(t, []string{"late", "", durable.DefaultType}, []string{got, page.ID, page.ContentType})
	u.tell(t, "later")
	got, _ = next(t, f)
	require.Equal(t, "later", got)
}
