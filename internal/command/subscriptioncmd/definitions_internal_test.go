package subscriptioncmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// definitions returns all definitions of a file in batches, as their place and JSON, or error.
func definitions(t *testing.T, text string, most, size int) (batches [][]string) {
	t.Helper()
	f, err := openDefinitions("-", strings.NewReader(text))
	require.NoError(t, err)
	defer f.Close()
	for {
		batch, err := f.Next(most, size)
		require.NoError(t, err)
		if len(batch) == 0 {
			return batches
		}
		var all []string
		for _, d := range batch {
			said := string(d.spec)
			if d.err != nil {
				said = d.err.Message
			}
			all = append(all, fmt.Sprintf("%d.%d %s", d.line, d.item, said))
		}
		batches = append(batches, all)
	}
}

func TestDefinitions_KnowTheirLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"space", "\n \n", nil},
		{"comments", "# a\n---\n# b\n...\n", nil},
		{"lines", "\n{\"a\":1}\r\n\n {\"b\":2}\n{\n---\n", []string{`2.0 {"a":1}`, `4.0 {"b":2}`, "5.0 the line is not JSON", "6.0 the line is not JSON"}},
		{"one line", `{"a":1}`, []string{`1.0 {"a":1}`}},
		{"JSON over lines", "{\n \"a\": 1\n}\n", []string{`1.0 {"a":1}`}},
		{"a list in JSON", `[{"a":1}, {"b":2}]`, []string{`1.1 {"a":1}`, `1.2 {"b":2}`}},
		{"documents", "a: 1\n---\nb: 2\n--- # c\n\n\nc: 3\n...\n", []string{`1.0 {"a":1}`, `3.0 {"b":2}`, `7.0 {"c":3}`}},
		{"a list", "# x\n- a: 1\n- b: [1, 2]\n", []string{`1.1 {"a":1}`, `1.2 {"b":[1,2]}`}},
		{"text with dashes", "a: |\n  ---\n  x\nb: ---x\n", []string{`1.0 {"a":"---\nx\n","b":"---x"}`}},
		{"a name twice", "a: 1\na: 2\n---\nb: 1\n", []string{`1.0 the document is not YAML: unmarshal errors:
  line 2: key "a" already set in map`, `4.0 {"b":1}`}},
		{"no mapping", "a\n---\n7\n", []string{`1.0 "a"`, `3.0 7`}},
		{"times and words", "at: 2026-01-02T03:04:05Z\non: 1\n", []string{`1.0 {"at":"2026-01-02T03:04:05Z","true":1}`}},
	}
	for _, tt := range tests {
		var got []string
		for _, batch := range definitions(t, tt.text, 100, 1000) {
			got = append(got, batch...)
		}
		require.Equal(t, tt.want, got, tt.name)
	}
}

// A batch is bounded in number and size; what is larger is one by itself.
func TestDefinitions_AreReadInBatches(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(`{"a":1}`+"\n", 5)
	require.Equal(t, [][]string{{`1.0 {"a":1}`, `2.0 {"a":1}`}, {`3.0 {"a":1}`, `4.0 {"a":1}`}, {`5.0 {"a":1}`}}, definitions(t, lines, 2, 1000))
	require.Equal(t, [][]string{{`1.0 {"a":1}`, `2.0 {"a":1}`}, {`3.0 {"a":1}`, `4.0 {"a":1}`}, {`5.0 {"a":1}`}}, definitions(t, lines, 100, 14))
	require.Len(t, definitions(t, lines, 100, 1), 5)

	f, err := openDefinitions("-", strings.NewReader("a: "+strings.Repeat("x", maxDefinition)))
	require.NoError(t, err)
	_, err = f.Next(1, 1)
	require.ErrorContains(t, err, "-, line 1: ")
	f, err = openDefinitions("-", strings.NewReader(strings.Repeat("a: "+strings.Repeat("x", 1<<20)+"\n", 17)))
	require.NoError(t, err)
	_, err = f.Next(1, 1)
	require.ErrorContains(t, err, "the document is larger than")
}
