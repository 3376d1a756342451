package remote

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// What a hostile source packs into one response is refused before it takes a hundred times its size.
func TestDecodePage_RefusesExpandingText(t *testing.T) {
	t.Parallel()
	many := func(head, element, tail string, n int) string {
		return head + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + tail
	}
	const half = 16 << 20
	for name, body := range map[string]string{
		"items":          many(`{"items":[`, `{}`, `]}`, half/3),
		"nulls":          many(`{"items":[`, `null`, `]}`, half/5),
		"hops":           many(`{"passed":[`, `{}`, `]}`, half/3),
		"ranges":         many(`{"lost":[`, `{}`, `]}`, half/3),
		"compartments":   many(`{"label":{"level":"PUBLIC","compartments":[`, `""`, `]}}`, half/3),
		"an incarnation": `{"incarnation":"` + strings.Repeat("x", half) + `"}`,
		"extensions":     many(`{"items":[{"extensions":{`, `"a":"b"`, `}}]}`, half/8),
		"levels":         `{"items":[{"extensions":` + strings.Repeat(`[`, half) + strings.Repeat(`]`, half) + `}]}`,
		"no list":        `{"items":{"a":1}}`,
		"no object":      `[]`,
		"no items":       `{"first_seq":1}`,
		"two lists":      `{"items":[],"Items":[{}]}`,
		"half":           `{"items":[{"op":"wri`,
		"a number":       `{"first_seq":` + strings.Repeat("9", half) + `}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodePage([]byte(body))
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(128), name) // MiB
	}
}

// A page is decoded as it was sent.
func TestDecodePage_HasEveryMember(t *testing.T) {
	t.Parallel()
	page, err := decodePage([]byte(`{"incarnation":"i","first_seq":1,"last_seq":9,"through_seq":8,"has_more":true,"since_tag":"s","through_tag":"t","label":{"level":"SECRET","compartments":["a"]},` +
		`"passed":[{"incarnation":"j","hops":2}],"lost":[{"from":3,"to":4}],"items":[{"op":"write","seq":5,"id":"a","path":"/p","data":{"a":1,"a":2}}],"unknown":1}`))
	require.NoError(t, err)
	require.Equal(t, "i", page.Incarnation)
	require.Equal(t, []uint64{1, 9, 8}, []uint64{page.FirstSeq, page.LastSeq, page.ThroughSeq})
	require.True(t, page.HasMore)
	require.Equal(t, []string{"s", "t"}, []string{page.SinceTag, page.ThroughTag})
	require.Equal(t, []string{"a"}, page.Label.Compartments)
	require.Equal(t, 2, page.Passed[0].Hops)
	require.EqualValues(t, 4, page.Lost[0].To)
	require.Equal(t, `{"a":1,"a":2}`, string(page.Items[0].Event.Data), "data may be anything")
}

// Data of every content type is that of sluice.Change.
func TestDecodePage_DataIsThatOfTheEvent(t *testing.T) {
	t.Parallel()
	for _, members := range []string{
		`"data":{ "a": 1 }`, `"datacontenttype":"text/plain","data":"a\nb"`, `"data":"text","datacontenttype":"application/json"`, `"data_base64":"AAE="`, `"data":null`, `"type":"t"`,
	} {
		item := `{"op":"write","seq":5,"id":"a",` + members + `}`
		var want sluice.Change
		require.NoError(t, want.UnmarshalJSON([]byte(item)))
		page, err := decodePage([]byte(`{"items":[` + item + `]}`))
		require.NoError(t, err, item)
		require.Equal(t, want, page.Items[0], item)
	}
	for _, item := range []string{`{"datacontenttype":"text/plain","data":{}}`, `{"data":1,"seq":"x"}`, `1`, `null`} {
		var want sluice.Change
		_, err := decodePage([]byte(`{"items":[` + item + `]}`))
		require.Equal(t, want.UnmarshalJSON([]byte(item)) == nil, err == nil, item)
	}
}
