package durable

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestOffset_TextsAreOrdered(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0000000000000000_0000000000000000", FormatOffset(0))
	seqs := []uint64{0, 1, 9, 10, 99, 12345, 9_999_999_999_999_999}
	texts := make([]string, len(seqs))
	for i, seq := range seqs {
		texts[i] = FormatOffset(seq)
		back, err := ParseOffset(texts[i])
		require.NoError(t, err)
		require.Equal(t, seq, back)
	}
	require.True(t, slices.IsSorted(texts))
	for _, counted := range []string{"0000000000000003_0000000000000001", "0000000000000003_9999999999999999"} {
		seq, err := ParseOffset(counted)
		require.NoError(t, err)
		require.EqualValues(t, 3, seq)
	}
	for _, text := range []string{"", "1", "-1", "now", " 000000000000000_0000000000000000", "0000000000000000-0000000000000000", "00000000000000000000000000000000_", strings.Repeat("0", 40)} {
		_, err := ParseOffset(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
}

func TestProducer_AppendsAreAcceptedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	known := &Producer{Epoch: 3, Seq: 7}
	tests := []struct {
		name       string
		known      *Producer
		epoch, seq int64
		want       Verdict
	}{
		{"a new one begins", nil, 5, 0, Accepted},
		{"a new one in the middle", nil, 0, 1, Gap},
		{"the next", known, 3, 8, Accepted},
		{"the last again", known, 3, 7, Duplicate},
		{"an older one again", known, 3, 0, Duplicate},
		{"one is missing", known, 3, 9, Gap},
		{"an earlier life", known, 2, 8, StaleEpoch},
		{"a new life", known, 4, 0, Accepted},
		{"a new life in the middle", known, 4, 8, LateStart},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, judge(tt.known, Claim{"p", tt.epoch, tt.seq}), tt.name)
	}
}

func TestProducer_OldestOneIsForgotten(t *testing.T) {
	t.Parallel()
	var r Record
	began := time.Unix(1000, 0)
	for i := range maxProducers + 1 {
		r.accept(Claim{ID: strconv.Itoa(i)}, began.Add(time.Duration(i)*time.Second))
	}
	require.Len(t, r.Producers, maxProducers)
	require.Nil(t, r.producer("0"))
	require.NotNil(t, r.producer("1"))
	require.NotNil(t, r.producer(strconv.Itoa(maxProducers)))
}

// What is closed is looked at first, then the content type, then the producer, then Stream-Seq.
func TestAppend_ChecksInProtocolOrder(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	stored := func(closed bool) *stream {
		return &stream{Record: Record{
			ID: "a", ContentType: "text/plain", Closed: closed, Seq: "b", HasSeq: true,
			Producers: map[string]Producer{"p": {Epoch: 2, Seq: 4}},
		}}
	}
	text, other := []byte("x"), "application/octet-stream"
	tests := []struct {
		name   string
		closed bool
		a      Append
		want   sluice.Code
		writes bool // the record changes
		stores bool
	}{
		{"plain", false, Append{ContentType: "TEXT/plain; charset=utf-8", Body: text}, "", false, true},
		{"without a type", false, Append{Body: text}, sluice.InvalidRequest, false, false},
		{"without a body", false, Append{ContentType: "text/plain"}, sluice.InvalidRequest, false, false},
		{"of another type", false, Append{ContentType: other, Body: text, Producer: &Claim{"p", 1, 0}}, sluice.Conflict, false, false},
		{"closing, with any type", false, Append{ContentType: other, Close: true}, "", true, false},
		{"the producer's next", false, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 2, 5}}, "", true, true},
		{"again, Stream-Seq too", false, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 2, 4}, Seq: "a", HasSeq: true}, "", false, false},
		{"of an earlier life", false, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 1, 9}}, sluice.Forbidden, false, false},
		{"with a gap", false, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 2, 6}}, sluice.Conflict, false, false},
		{"behind the last Stream-Seq", false, Append{ContentType: "text/plain", Body: text, Seq: "c", HasSeq: true}, "", true, true},
		{"not behind it", false, Append{ContentType: "text/plain", Body: text, Seq: "B", HasSeq: true}, sluice.Conflict, false, false},
		{"to a closed one", true, Append{ContentType: other, Body: text}, sluice.Conflict, false, false},
		{"closing again", true, Append{Close: true}, "", false, false},
		{"what was stored before it closed", true, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 2, 4}}, "", false, false},
		{"of an earlier life, to a closed one", true, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 1, 0}}, sluice.Forbidden, false, false},
		{"the next, to a closed one", true, Append{ContentType: "text/plain", Body: text, Producer: &Claim{"p", 2, 5}}, sluice.Conflict, false, false},
	}
	for _, tt := range tests {
		p, err := stored(tt.closed).decide(&tt.a, now)
		require.Equal(t, tt.want, sluice.CodeOf(err), tt.name)
		if err == nil {
			require.Equal(t, tt.writes, p.next != nil, tt.name)
			require.Equal(t, tt.stores, !p.nothing, tt.name)
		}
		require.Equal(t, tt.closed || err == nil && tt.a.Close, p.Closed, tt.name)
	}
}

func TestTTL_StreamEndsSoonAfterItsUse(t *testing.T) {
	t.Parallel()
	ttl, began := 100*time.Second, time.Unix(1000, 0)
	r := stream{Record: Record{Lifetime: Lifetime{TTL: &ttl}, Renewed: began}}
	require.Nil(t, r.renewed(began.Add(4*time.Second)), "a renewal is a write, and not worth it yet")
	require.NotNil(t, r.renewed(began.Add(5*time.Second)))
	require.False(t, r.expired(began.Add(104*time.Second)), "a use 4 s after that was stored gives 100 s")
	require.True(t, r.expired(began.Add(105*time.Second)))
	at := began.Add(time.Minute)
	r.Lifetime = Lifetime{ExpiresAt: &at}
	require.Nil(t, r.renewed(at))
	require.False(t, r.expired(at.Add(-1)))
	require.True(t, r.expired(at))
	for _, text := range []string{"", "01", "+1", "-1", "1.5", "1e3", " 1", "9999999999999999"} {
		_, err := ParseTTL(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
}

func TestOffset_CutsStreams(t *testing.T) {
	t.Parallel()
	all := []Segment{{"/a", 0, 5, 3}, {"/b", 7, 9, 0}, {"/c", 9, endless, 0}}
	require.Empty(t, clip(all, 0))
	require.Equal(t, []Segment{{"/a", 0, 4, 0}}, clip(all, 4), "what is cut off lies behind")
	require.Equal(t, all[:1], clip(all, 5))
	require.Equal(t, all[:1], clip(all, 7))
	require.Equal(t, []Segment{{"/a", 0, 5, 3}, {"/b", 7, 8, 0}}, clip(all, 8))
	require.Equal(t, all, behind(all, 0))
	require.Equal(t, []Segment{{"/b", 8, 9, 0}, all[2]}, behind(all, 8))
	require.Equal(t, []Segment{{"/c", 20, endless, 0}}, behind(all, 20))
	require.Equal(t, "abc", string(all[0].cut(sluice.Event{Seq: 5, Data: []byte("abcdef")}).Data))
	require.Equal(t, "abcdef", string(all[0].cut(sluice.Event{Seq: 4, Data: []byte("abcdef")}).Data))
}

func TestAppend_FlattensAnArrayByOneLevel(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		` {"a": 1.0} `:                 {`{"a": 1.0}`},
		`[]`:                           nil,
		`[1, [2, 3] ,"x"]`:             {`1`, `[2, 3]`, `"x"`},
		"\n[[[]]]":                     {`[[]]`},
		`null`:                         {`null`},
		`[{"b":12345678901234567890}]`: {`{"b":12345678901234567890}`},
	} {
		messages, err := Flatten([]byte(body), 10)
		require.NoError(t, err)
		var got []string
		for _, m := range messages {
			got = append(got, string(m))
		}
		require.Equal(t, want, got, body)
	}
	for _, body := range []string{"{", "[1,]", "1 2", "\x00"} {
		_, err := Flatten([]byte(body), 10)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), body)
	}
}

// A stream of JSON stays JSON when other publishers store other data on its path.
func TestRead_JSONStreamStaysJSON(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{`{"a":1}`: `{"a":1}`, "": "null", "plain \"text\"": `"plain \"text\""`, "\xff": `"/w=="`} {
		require.JSONEq(t, want, string(message(&sluice.Event{Data: []byte(data)}, JSONType)), data)
	}
	require.Equal(t, "\xff", string(message(&sluice.Event{Data: []byte("\xff")}, "text/plain")))
	require.True(t, json.Valid(Join(nil, JSONType)))
}

func TestRead_SplitsTextBetweenCharacters(t *testing.T) {
	t.Parallel()
	text := []byte("aäöü€x")
	for most := 4; most < 12; most++ {
		pieces := split(text, most, "text/plain")
		require.Equal(t, string(text), string(slices.Concat(pieces...)))
		for _, p := range pieces {
			require.LessOrEqual(t, len(p), most)
			require.Equal(t, strings.ToValidUTF8(string(p), "?"), string(p))
		}
	}
	require.Len(t, split(make([]byte, 10), 4, DefaultType), 3)
}

func TestCursor_AlwaysAdvances(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 10, 9, 0, 1, 0, 0, time.UTC)
	require.Equal(t, "3", Cursor("", now))
	require.Equal(t, "3", Cursor("2", now))
	require.Equal(t, "3", Cursor("nonsense", now))
	for _, given := range []string{"3", "100"} {
		next, err := strconv.Atoi(Cursor(given, now))
		require.NoError(t, err)
		last, err := strconv.Atoi(given)
		require.NoError(t, err)
		require.Greater(t, next, last)
	}
}
