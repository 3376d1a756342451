package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// follow returns a follower of the user's stream that has reached its end.
func (u *user) follow(t *testing.T, show durable.Show) *durable.Follower {
	t.Helper()
	f := u.engine.Follow(u.key(), durable.Place{Now: true}, show)
	t.Cleanup(f.Close)
	page, err := f.Read(t.Context())
	require.NoError(t, err)
	require.True(t, page.UpToDate)
	require.Empty(t, page.Messages)
	return f
}

// joined returns a follower that waits for what is told, and reads nothing.
func (u *user) joined(t *testing.T, show durable.Show) *durable.Follower {
	t.Helper()
	f := u.follow(t, show)
	u.settles(t, f)
	return f
}

// settles requires that followers wait without reading, after a while.
func (u *user) settles(t *testing.T, followers ...*durable.Follower) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := u.reads.Load()
		for _, f := range followers {
			waits(t, f)
		}
		return u.reads.Load() == before
	}, patience, time.Millisecond)
}

// waits requires that nothing has come for a follower.
func waits(t *testing.T, f *durable.Follower) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	page, err := f.Next(ctx)
	require.NoError(t, err)
	require.Empty(t, page.Messages)
	require.False(t, page.Ended())
}

// next returns the next page as a text.
func next(t *testing.T, f *durable.Follower) (string, durable.Page) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	page, err := f.Next(ctx)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	return string(durable.Join(page.Messages, page.ContentType)), page
}

func (u *user) add(t *testing.T, data string) uint64 {
	t.Helper()
	done, err := u.append(t.Context(), durable.Append{Body: []byte(data)})
	require.NoError(t, err)
	return done.Next
}

// However many follow, what is appended is read for none of them, and its text is made once.
func TestFollow_SharesNewMessages(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, writer := s.user(), s.user()
	u.create(t, durable.Create{Body: []byte("before")})
	followers := make([]*durable.Follower, 20)
	for i := range followers {
		followers[i] = u.joined(t, everything)
	}
	before, made := u.reads.Load(), 0
	for n := range 5 {
		end := writer.add(t, fmt.Sprint("m", n))
		var pages []durable.Page
		for _, f := range followers {
			got, page := next(t, f)
			require.Equal(t, fmt.Sprint("m", n), got)
			require.Equal(t, end, page.Next)
			require.True(t, page.UpToDate)
			pages = append(pages, page)
		}
		for _, page := range pages {
			text := page.Text(func() []byte { made++; return []byte("text") })
			require.Equal(t, "text", string(text))
		}
	}
	require.Equal(t, 5, made)
	require.Equal(t, before, u.reads.Load())
}

// What a follower may not see is neither in its pages nor in a text that it shares, but behind it when it comes to the end.
func TestFollow_HiddenMessagesStayHidden(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{ContentType: durable.JSONType})
	refuses := errors.New("not known")
	first, open := u.joined(t, everything), u.joined(t, everything)
	blind := u.joined(t, func(ev *sluice.Event) (bool, error) { return string(ev.Data) != "2", nil })
	unsure := u.joined(t, func(*sluice.Event) (bool, error) { return false, refuses })
	add := func(body string) uint64 {
		t.Helper()
		done, err := u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: []byte(body)})
		require.NoError(t, err)
		return done.Next
	}
	for _, order := range [][]*durable.Follower{{first, blind, open}, {blind, first, open}} {
		add("[1,2,3]") // one step, so each gets all of it at once
		for _, f := range order {
			want := "[1,2,3]"
			if f == blind {
				want = "[1,3]"
			}
			got, page := next(t, f)
			require.Equal(t, want, got)
			require.Equal(t, want, string(page.Text(func() []byte { return []byte(got) })))
		}
	}
	for range 2 {
		_, err := unsure.Next(t.Context())
		require.ErrorIs(t, err, refuses, "it does not pass the messages")
	}
	end := add("2")
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		page, err := blind.Next(ctx)
		return err == nil && len(page.Messages) == 0 && page.Next == end
	}, patience, time.Millisecond, "a hidden message is passed")
}

// The messages and the closure of one append come together, and nobody reads the record for it.
func TestFollow_ClosingComesWithItsMessages(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, writer := s.user(), s.user()
	u.create(t, durable.Create{ContentType: durable.JSONType})
	with, without := u.joined(t, everything), u.joined(t, everything)
	before := u.reads.Load()
	_, err := writer.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: []byte("[1,2,3]"), Close: true})
	require.NoError(t, err)
	for _, f := range []*durable.Follower{with, without} {
		got, page := next(t, f)
		require.Equal(t, "[1,2,3]", got)
		require.True(t, page.Ended())
	}
	require.Equal(t, before, u.reads.Load())
}

// A stream that is deleted ends for its followers, and one that is made again on its path is another one.
func TestFollow_DeletedStreamEnds(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, writer := s.user(), s.user()
	u.create(t, durable.Create{Body: []byte("old")})
	f, late := u.joined(t, everything), u.joined(t, everything)
	require.NoError(t, writer.engine.Delete(t.Context(), u.key()))
	_, err := f.Next(t.Context())
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))

	writer.create(t, durable.Create{ContentType: durable.JSONType, Body: []byte("1")})
	got, page := next(t, late)
	require.Equal(t, "[1]", got, "as its own reading would say")
	require.Equal(t, durable.JSONType, page.ContentType)
	u.settles(t, late)
	again := u.joined(t, everything)
	_, err = writer.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: []byte("2")})
	require.NoError(t, err)
	for _, f := range []*durable.Follower{late, again} {
		got, _ = next(t, f)
		require.Equal(t, "[2]", got)
	}
}

// A follower that takes nothing for a while gets everything afterwards: what is kept for it has a bound.
func TestFollow_SlowOneMissesNothing(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{})
	slow, quick := u.joined(t, everything), u.joined(t, everything)
	const rounds, size = 70, 40 << 10 // more than a tail has room for, in messages and in bytes
	for n := range rounds {
		data := fmt.Sprintf("%d,%s", n, strings.Repeat("x", size))
		u.add(t, data)
		got, _ := next(t, quick)
		require.Equal(t, data, got)
	}
	var seen strings.Builder
	for n := 0; n < rounds; {
		got, page := next(t, slow)
		seen.WriteString(got)
		n += len(page.Messages)
	}
	require.Equal(t, u.text(t), seen.String())
}

// An append that is too large to be kept is read by each.
func TestFollow_LargeAppendIsReadByEach(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, writer := s.user(), s.user()
	u.create(t, durable.Create{})
	f := u.joined(t, everything)
	before := u.reads.Load()
	large := strings.Repeat("x", 3<<20)
	writer.add(t, large)
	var got strings.Builder
	for got.Len() < len(large) {
		part, _ := next(t, f)
		got.WriteString(part)
	}
	require.Equal(t, large, got.String())
	require.Greater(t, u.reads.Load(), before)
	u.settles(t, f)
	before = u.reads.Load()
	writer.add(t, "small")
	small, _ := next(t, f)
	require.Equal(t, "small", small)
	require.Equal(t, before, u.reads.Load())
}

// Reading what is told is use of a stream: one follower of all renews its lifetime. One whose lifetime is
// over is gone.
func TestFollow_RenewsTheLifetime(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, outside := s.user(), "events.space.s"
	ttl := 40 * time.Minute // a twentieth of it is long enough for a round
	u.create(t, durable.Create{Lifetime: durable.Lifetime{TTL: &ttl}})
	followers := []*durable.Follower{u.joined(t, everything), u.joined(t, everything), u.joined(t, everything)}
	tell := func(data string) {
		t.Helper()
		_, err := s.js.Publish(t.Context(), outside, []byte(data))
		require.NoError(t, err)
	}
	for n := range 5 {
		before := u.counted("record")
		u.ahead += ttl / 2
		tell(strconv.Itoa(n))
		for _, f := range followers {
			got, _ := next(t, f)
			require.Equal(t, strconv.Itoa(n), got)
		}
		require.Equal(t, before+1, u.counted("record"), "one renewal")
	}
	u.ahead += 2 * ttl
	tell("late")
	for _, f := range followers {
		_, err := f.Next(t.Context())
		require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	}
}

// What was removed from the log while a follower waited is no reason to read it again and again.
func TestFollow_PurgedStreamIsFollowed(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u := s.user()
	u.create(t, durable.Create{Body: []byte("a")})
	waiting, slow := u.joined(t, everything), u.joined(t, everything)
	for range 20 { // more than a tail keeps
		u.add(t, strings.Repeat("x", 100<<10))
		_, _ = next(t, waiting)
	}
	stream, err := s.js.Stream(t.Context(), "EVENTS_space")
	require.NoError(t, err)
	purge(t, stream, "events.space.s")
	late := u.joined(t, everything) // its place lies before that of the tail
	u.settles(t, slow, late)
	u.add(t, "b")
	for _, f := range []*durable.Follower{waiting, slow, late} {
		got, _ := next(t, f)
		require.Equal(t, "b", got)
	}
}

// Followers of one engine get what is stored through another one, in order and once, while some are slow, the
// connection breaks and the stream is rewritten all the time; on a cluster too.
func TestFollow_EachGetsAllOnceAndInOrder(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		server := natstest.New(t)
		crowd(t, spaceOn(t, natsstore.Options{Conn: server}, 0), func() { server.Restart(t) })
	})
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("a cluster")
		}
		crowd(t, spaceOn(t, natsstore.Options{URL: natstest.NewCluster(t).URL(), Replicas: 3}, 0), func() {})
	})
}

func crowd(t *testing.T, s *space, disturb func()) {
	t.Helper()
	readers, writers := s.user(), s.user()
	writers.create(t, durable.Create{})
	writers.run(t)
	const appends = 150
	begun, closed := make(chan struct{}), make(chan struct{})
	close(begun)
	var following, appending sync.WaitGroup
	for range 4 {
		following.Go(func() { readers.crowded(t, closed) })
		following.Go(func() { readers.crowded(t, begun) })
		following.Go(func() { readers.crowded(t, begun) })
	}
	for writer := range 3 {
		appending.Go(func() {
			for n := range int64(appends) {
				if n == appends/2 && writer == 0 {
					disturb()
				}
				done := retried(t, func() error {
					_, err := writers.produce(t.Context(), strconv.Itoa(writer), 0, n)
					return err
				})
				if !done {
					return
				}
			}
		})
	}
	appending.Wait()
	_, err := writers.append(t.Context(), durable.Append{Close: true})
	close(closed)
	require.NoError(t, err)
	following.Wait()
}

// crowded follows the stream to its end and requires that it was told the whole of it. It takes one page before it
// may go on.
func (u *user) crowded(t *testing.T, may <-chan struct{}) {
	t.Helper()
	var seen strings.Builder
	var page durable.Page
	f := u.engine.Follow(u.key(), durable.Place{}, everything)
	defer func() { f.Close() }()
	for after := uint64(0); !page.Ended(); after = page.Next {
		var err error
		if page, err = f.Next(t.Context()); err != nil { // as a client does that lost its connection
			again := retried(t, func() error {
				f.Close()
				f = u.engine.Follow(u.key(), durable.Place{After: after}, everything)
				page, err = f.Read(t.Context())
				return err
			})
			if !again {
				return
			}
		}
		joined := string(durable.Join(page.Messages, plain))
		if text := page.Text(func() []byte { return []byte(joined) }); string(text) != joined {
			t.Errorf("the text of another page: %s instead of %s", text, joined)
		}
		seen.WriteString(joined)
		<-may
	}
	if want := u.text(t); want != seen.String() {
		t.Errorf("told\n%s\ninstead of\n%s", seen.String(), want)
	}
}

// retried repeats what fails for a while, and reports whether it succeeded.
func retried(t *testing.T, do func() error) bool {
	t.Helper()
	end, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return true
		}
		select {
		case <-tick.C:
		case <-end:
			t.Error(err)
			return false
		}
	}
}
