package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// allocated returns how many bytes f allocates, which is more than it has at any moment.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Issue 13, attack 7: what a body costs is in proportion to it, for any content. Tests that measure memory do
// not run beside others.
func TestBodies_CostFourTimesTheirSize(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	const size = 8 << 20
	fill := func(one string) []byte { return []byte("[" + strings.Repeat(one+",", size/(len(one)+1)) + one + "]") }
	parse := func(media string) func([]byte) error {
		return func(data []byte) error {
			_, err := cloudevent.Parse(http.Header{"Content-Type": {media}}, data, "")
			return err
		}
	}
	decode := func(target any) func([]byte) error {
		return func(data []byte) error {
			if err := strictjson.Check(data); err != nil {
				return err
			}
			return strictjson.Decode(data, target)
		}
	}
	items := func(media string) func([]byte) error {
		return func(data []byte) error {
			_, err := batchItems(media, data)
			return err
		}
	}
	event := `{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a"}`
	tests := []struct {
		name string
		read func([]byte) error
		body []byte
	}{
		{"a batch of nothing", parse("application/cloudevents-batch+json"), fill("{}")},
		{"a batch of numbers", parse("application/cloudevents-batch+json"), fill("1")},
		{"a batch of small events", parse("application/cloudevents-batch+json"), fill(event)},
		{"a batch of short forms", parse("application/json"), fill(`{"path":"/a"}`)},
		{"an event of many attributes", parse(cloudevent.StructuredType), []byte(many(size / 12))},
		{"names in objects in objects", parse(cloudevent.StructuredType), nestedNames(size)},
		{"a batch of subscriptions", items("application/json"), fill("{}")},
		{"lines of subscriptions", items("application/x-ndjson"), bytes.Repeat([]byte("{}\n"), size/3)},
		{"ids to redrive", decode(&redriveRequest{}), []byte(`{"ids":` + string(fill(`""`)) + `}`)},
		{"types of a filter", decode(&subscription.Request{}), []byte(`{"filter":{"types":` + string(fill(`""`)) + `}}`)},
		{"anything", decode(new(any)), fill("{}")},
	}
	for _, tt := range tests { //nolint:paralleltest // they count what the process allocates
		t.Run(tt.name, func(t *testing.T) {
			var err error
			got := allocated(func() { err = tt.read(tt.body) })
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%v", err)
			require.LessOrEqual(t, got, uint64(3*len(tt.body)), "besides the body itself")
		})
	}
}

// nestedNames returns objects in one another with many members each.
func nestedNames(size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString("{")
		for i := range 9000 {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		b.WriteString(`"next":`)
	}
	return b.Bytes()
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}
