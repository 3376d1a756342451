package eventlog

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func keyed(ids ...string) *stamps {
	st := &stamps{}
	for _, id := range ids {
		st.keys = append(st.keys, newStampKey(id, []byte("the secret of "+id)))
	}
	return st
}

func caused() *sluice.Event {
	return &sluice.Event{
		ID: "1", Path: "/a/b", Type: "t", Source: "/s", Subject: "x", ContentType: "application/json", Time: time.Unix(1, 5).UTC(),
		Extensions: map[string]string{"authtype": "user", "authid": "ann ü", "region": "eu"}, Data: []byte(`{"a":1}`),
	}
}

// S4-80, C38: for any event, a sealed stamp is believed and an unsealed one is not.
func TestStamp_MakesAuthAttributesBelieved(t *testing.T) {
	t.Parallel()
	st := keyed("k")
	rapid.Check(t, func(t *rapid.T) {
		e := someEvent().Draw(t, "event")
		e.Extensions = maps.Clone(e.Extensions)
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		bare := maps.Clone(e.Extensions)
		e.Extensions[rapid.SampledFrom([]string{"authtype", "authid", "auth", "authx9"}).Draw(t, "name")] = rapid.String().Draw(t, "value")
		msg := message(streams.Names{}, "acme", &e)
		got, err := st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
		require.NoError(t, err)
		if len(bare) == 0 {
			require.Nil(t, got.Extensions)
		} else {
			require.Equal(t, bare, got.Extensions)
		}
		published := message(streams.Names{}, "acme", &e)
		require.NoError(t, st.sealEvent(published, &e))
		require.NoError(t, st.seal(msg))
		require.Equal(t, msg.Header, published.Header, "what the server publishes need not be read to be stamped")
		got, err = st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
		require.NoError(t, err)
		require.Equal(t, e.Extensions, got.Extensions)
	})
}

// A stamp is worth nothing on anything but what it was made for.
func TestStamp_IsOfOneEvent(t *testing.T) {
	t.Parallel()
	st := keyed("new", "old")
	sealed := func(by *stamps) *nats.Msg {
		msg := message(streams.Names{}, "acme", caused())
		require.NoError(t, by.seal(msg))
		return msg
	}
	believed := func(msg *nats.Msg) bool {
		e, err := st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
		require.NoError(t, err)
		require.Equal(t, e.Extensions["authtype"] != "", e.Extensions["authid"] != "", "both or none")
		return e.Extensions["authtype"] != ""
	}
	require.True(t, believed(sealed(st)))
	require.True(t, believed(sealed(keyed("old"))), "by the key before")
	require.False(t, believed(sealed(keyed("other"))), "by an unknown key")
	for name, forge := range map[string]func(*nats.Msg){
		"another namespace":   func(m *nats.Msg) { m.Subject = "events.other.a.b" },
		"another path":        func(m *nats.Msg) { m.Subject = "events.acme.a.c" },
		"another id":          func(m *nats.Msg) { m.Header.Set("ce-id", "2") },
		"another message id":  func(m *nats.Msg) { m.Header.Set("Nats-Msg-Id", "2") },
		"another who":         func(m *nats.Msg) { m.Header["ce-authid"] = []string{"bob"} },
		"another kind of who": func(m *nats.Msg) { m.Header["ce-authtype"] = []string{"system"} },
		"one who more":        func(m *nats.Msg) { m.Header["ce-authlevel"] = []string{"9"} },
		"another extension":   func(m *nats.Msg) { m.Header["ce-region"] = []string{"us"} },
		"an extension less":   func(m *nats.Msg) { delete(m.Header, "ce-region") },
		"an extension in the data": func(m *nats.Msg) {
			delete(m.Header, "ce-region")
			m.Data = append(appendPart(appendPart(nil, "region"), "eu"), m.Data...)
		},
		"another type": func(m *nats.Msg) { m.Header.Set("ce-type", "u") },
		"another time": func(m *nats.Msg) { m.Header["ce-time"] = []string{"2026-01-01T00:00:00Z"} },
		"other data":   func(m *nats.Msg) { m.Data = []byte(`{"a":2}`) },
		"no stamp":     func(m *nats.Msg) { m.Header.Del(streams.HeaderStamp) },
		"two stamps":   func(m *nats.Msg) { m.Header.Add(streams.HeaderStamp, "x") },
		"no key": func(m *nats.Msg) {
			m.Header.Set(streams.HeaderStamp, strings.TrimPrefix(m.Header.Get(streams.HeaderStamp), "new"))
		},
		"the old key's name": func(m *nats.Msg) {
			m.Header.Set(streams.HeaderStamp, strings.Replace(m.Header.Get(streams.HeaderStamp), "new", "old", 1))
		},
		"an empty stamp":       func(m *nats.Msg) { m.Header.Set(streams.HeaderStamp, "new.") },
		"a stamp of no base64": func(m *nats.Msg) { m.Header.Set(streams.HeaderStamp, "new.?") },
	} {
		msg := sealed(st)
		forge(msg)
		if msg.Header.Get("ce-type") == "" && msg.Header["ce-type"] == nil {
			require.Fail(t, name)
		}
		require.False(t, believed(msg), name)
	}
}

func TestStamp_OfStructuredModeCoversTheBody(t *testing.T) {
	t.Parallel()
	st := keyed("k")
	msg := &nats.Msg{
		Subject: "events.acme.a", Header: nats.Header{"content-type": {"application/cloudevents+json"}},
		Data: []byte(`{"specversion":"1.0","id":"1","type":"t","source":"/s","authtype":"user","authid":"ann","data":{"a":1}}`),
	}
	require.NoError(t, st.seal(msg))
	e, err := st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"authtype": "user", "authid": "ann"}, e.Extensions)
	msg.Data = []byte(strings.Replace(string(msg.Data), "ann", "bob", 1))
	e, err = st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
	require.NoError(t, err)
	require.Empty(t, e.Extensions)
}

// Data that is a CloudEvent itself must not smuggle in who caused it under a stamp for another.
func TestStamp_NestedCloudEventNamesNoOtherProducer(t *testing.T) {
	t.Parallel()
	st := keyed("k")
	e := caused()
	e.ContentType, e.Data = "application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","type":"t","source":"/s","authtype":"system"}`)
	requireInvalid := func() {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(st.sealEvent(message(streams.Names{}, "acme", e), e)))
	}
	requireInvalid()
	e.Data = []byte(`{"specversion":"1.0","id":"1","type":"t","source":"/s","authlevel":"9"}`)
	requireInvalid()
	e.Extensions = nil
	msg := message(streams.Names{}, "acme", e)
	require.NoError(t, st.sealEvent(msg, e))
	require.Empty(t, msg.Header.Get(streams.HeaderStamp), "and without one it is not believed")
	e = caused()
	msg = message(streams.Names{}, "acme", e)
	require.NoError(t, st.sealEvent(msg, e))
	got, err := st.eventOf(msg.Subject, msg.Header, msg.Data, 1, time.Unix(1, 0))
	require.NoError(t, err)
	require.Equal(t, e.Extensions, got.Extensions)
}

func TestStamp_WithoutAKeyIsAnError(t *testing.T) {
	t.Parallel()
	msg := message(streams.Names{}, "acme", caused())
	require.ErrorIs(t, new(stamps).seal(msg), errNoStampKey)
	plain := message(streams.Names{}, "acme", &sluice.Event{ID: "1", Path: "/a"})
	plain.Header.Set(streams.HeaderStamp, "forged")
	require.NoError(t, new(stamps).seal(plain), "who says nothing needs no stamp")
	require.Empty(t, plain.Header.Get(streams.HeaderStamp))
}

// C38: reserved paths are the server's alone, the ones that no permission can name included.
func TestDecode_ReservedPathsHoldNoEvents(t *testing.T) {
	t.Parallel()
	for subject, ok := range map[string]bool{
		"events.acme._sys.subscriptions.x": true, "events.acme.a.$b": true, "events.acme.$a": false, "events.acme.$SYS.x": false, "events.acme._system": false, "events.acme._sys2.x": false,
	} {
		_, err := keyed("k").eventOf(subject, nil, nil, 1, time.Unix(1, 0))
		if ok {
			require.NoError(t, err, subject)
		} else {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), subject)
		}
	}
}

func BenchmarkStamp(b *testing.B) {
	st := keyed("k")
	plain := caused()
	plain.Extensions = map[string]string{"region": "eu"}
	for name, e := range map[string]*sluice.Event{"plain": plain, "auth": caused()} {
		e.Data = []byte(`{"a":"` + strings.Repeat("x", 250) + `"}`)
		msg := message(streams.Names{}, "acme", e)
		require.NoError(b, st.seal(msg))
		b.Run("publish/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := st.sealEvent(message(streams.Names{}, "acme", e), e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("deliver/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.eventOf(msg.Subject, msg.Header, msg.Data, 1, e.Time); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The message of an event with its stamp costs no allocation for each header, nor a new HMAC.
func TestStamp_Allocations(t *testing.T) { //nolint:paralleltest // allocations of others would count
	st, ev := keyed("k"), caused()
	allocations := testing.AllocsPerRun(1000, func() {
		_ = st.sealEvent(message(streams.Names{}, "default", ev), ev)
	})
	require.LessOrEqual(t, allocations, 26.0) // 23, and a few that the race detector adds
}

// A secret is the same for a name as long as its key is there, also with further keys, and another one for another name or key.
func TestSecret_IsOfNameAndOldestKey(t *testing.T) {
	t.Parallel()
	secret := func(name string, keys ...string) string {
		text, err := (&Log{stamps: keyed(keys...)}).Secret(name)
		require.NoError(t, err)
		require.Len(t, text, 64)
		return text
	}
	require.Equal(t, secret("a", "old"), secret("a", "new", "old"))
	require.NotEqual(t, secret("a", "old"), secret("b", "old"))
	require.NotEqual(t, secret("a", "old"), secret("a", "new"))
	_, err := (&Log{stamps: keyed()}).Secret("a")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
}
