package strictjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

func nested(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2) }

func TestCheck_PassesUnambiguousJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{}`, `[]`, `"a"`, `1`, `{"a":{"a":{"a":1}},"b":["a","a","a"]}`, `[{"a":1},{"a":1}]`, `{"a":"a","b":"a","":"{\"a\":1,\"a\":2}"}`,
		`{"a\\":1,"a\"":2,"a":3}`, `{"a":1,"A":2}`, nested(maxDepth), many(fewMembers), many(fewMembers + 1), many(maxValues),
		`{"a`, `"`, `{"\`, `,`, `{"a":1},"a"`, `{"\x":1,"\y":2}`, // left to the decoder
		`{"a":"{\"b\":1","b":1,"c":"[{"}`,
		`{"a":"\\","b":"\\\""}`, `{"n":[1,2,{"n":3},"n"],"m":{"n":1}}`,
	} {
		require.NoError(t, Check([]byte(text)), "%.80s", text)
	}
}

func TestCheck_RefusesAmbiguousJSON(t *testing.T) {
	t.Parallel()
	large := many(1000)
	tests := []struct{ name, text, says string }{
		{"a name twice", `{"a":1,"b":2,"a":3}`, `duplicate member "a"`},
		{"a name twice, spelt in two ways", `{"a":1,"\u0061":2}`, `duplicate member "a"`},
		{"a name twice inside", `{"x":[{"y":{"a":1,"a":1}}]}`, "duplicate member"},
		{"a name twice after an object", `{"a":{"b":[1]},"a":2}`, "duplicate member"},
		{"a name twice among many", large[:len(large)-1] + `,"k7":1}`, `duplicate member "k7"`},
		{"the last of many names twice", large[:len(large)-1] + `,"k999":1}`, `duplicate member "k999"`},
		{"a name twice behind a bracket in a string", `{"a":"}","a":1}`, `duplicate member "a"`},
		{"a name twice behind a quote in a string", `{"\"":1,"a":2,"a":3}`, `duplicate member "a"`},
		{"an empty name twice", `{"":1,"":2}`, "duplicate member"},
		{"bytes that are no UTF-8", "{\"a\":\"\xff\"}", "UTF-8"},
		{"a surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", "UTF-8"},
		{"one level too deep", nested(maxDepth + 2), "nested too deep"},
		{"10,000 levels", nested(10_000), "nested too deep"},
		{"10,000 levels that are never closed", strings.Repeat("[", 10_000), "nested too deep"},
		{"one member too many", many(maxValues + 1), "more than 100000 values"},
		{"a million members", many(1_000_000), "more than 100000 values"},
		{"a million elements", "[" + strings.Repeat("{},", 1_000_000) + "{}]", "more than 100000 values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Check([]byte(tt.text))
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		})
	}
}

// What an event's data says, it says to its receivers.
func TestCheck_SkipsTheDataOfAnEvent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"data":{"a":1,"a":2},"path":"/a"}`, `[{"data":{"a":1,"a":[{"b":1,"b":2}]},"type":"t"},{"data":{"a":1,"a":2}}]`, `{"data":"x","path":"/a"}`,
		`{"data":[{"b":{}},{"a":1,"a":2}]}`,
	} {
		require.NoError(t, CheckEvents([]byte(text)), text)
	}
	for _, text := range []string{
		`{"data":{"a":1,"a":2},"data":1}`, `{"data":[{}],"path":"/a","path":"/b"}`, `[{"data":{},"id":"1","id":"2"}]`,
		`{"x":{"data":{"a":1,"a":2}}}`, `[[{"data":{"a":1,"a":2}}]]`, `{"data":1,"x":{"a":1,"a":2}}`,
		`[{"data":1},{"x":{"a":1,"a":2}}]`,
	} {
		require.Error(t, CheckEvents([]byte(text)), text)
	}
	require.Error(t, Check([]byte(`{"data":{"a":1,"a":2}}`)), "only of events")
}

// Input that is no JSON is left to the decoder.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a`, `{"\`, `]}`, `{"\u00`, `,,,`, nested(20)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := Check(data); err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		}
	})
}

func BenchmarkCheckJSON(b *testing.B) {
	data := []byte(`{"path":"/orders/42","type":"order.created","data":{"id":42,"total":99.5,"lines":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"` + strings.Repeat("x", 100) + `"}}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(data); err != nil {
			b.Fatal(err)
		}
	}
}
