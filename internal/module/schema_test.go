package module_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
)

// manifestSchema returns the compiled schema of manifests.
func manifestSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(module.Schema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("manifest.json", doc))
	compiled, err := c.Compile("manifest.json")
	require.NoError(t, err)
	return compiled
}

// The schema takes what the parser takes, and refuses what it refuses, except for what no schema sees.
func TestSchema_AgreesWithTheParser(t *testing.T) {
	t.Parallel()
	is := manifestSchema(t)
	valid := func(text string) error {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return is.Validate(doc)
	}
	for _, text := range []string{
		manifest, oneEvent(`"pattern":"/a/**"`),
		`{"$schema":"manifest.schema.json","namespaces":["eu","default"],"events":[{"eventType":"order.*","handler":"handlers/a b.py","filter":{"projectScoped":true,"sources":["/a"],"subjects":["b"],"labels":{"c":["d"]},"cel":"event.data.n > 1"}}]}`,
		oneEvent(`"id":"a","args":["-v"],"mode":"exec","dialect":"hooks","env":["API_KEY"],"timeout":"3s","concurrency":9,"retry":{"preset":"custom","steps":["1s","2m"],"max_attempts":3,"jitter":0.2},"envelope":"fact"`),
		oneEvent(`"limits":{"memoryMiB":100,"processor":"2s","openFiles":9,"fileMiB":1,"processes":50}`),
		oneEvent(`"output":"events","publish":[{"pattern":"/a/**","types":["b.*","c"]},{"pattern":"/c"}]`),
		oneEvent(`"network":true,"publish":[{"pattern":"/a"}],"read":["/d/*"]`), oneEvent(`"output":"log","publish":[],"read":[]`),
		`{"events":[{"eventType":"system.start","handler":"handlers/b","filter":{"projectScoped":false}},{"eventType":"sys.shutdown","handler":"handlers/c","filter":{"projectScoped":false},"pattern":"/_sys/server/*"}]}`,
		endpoint(`"endpoint":"crm"`), endpoint(`"endpoint":"crm","id":"a","pattern":"/a/**","timeout":"3s","concurrency":9,"retry":{"preset":"short"},"envelope":"fact"`),
	} {
		_, err := module.ParseManifest([]byte(text))
		require.NoError(t, err, text)
		require.NoError(t, valid(text), text)
	}
	unseen := 0
	for text, reason := range unclear() {
		if valid(text) == nil {
			unseen++
			require.True(t, beyond(reason), "the schema takes it, though: %s: %s", reason, text[:min(len(text), 300)])
		}
	}
	require.Less(t, unseen, len(unclear())/2)
}

// oneEvent returns a manifest with one event that has more members.
func oneEvent(members string) string {
	return `{"events":[{"eventType":"a.b","handler":"handlers/a","filter":{"projectScoped":true},` + members + `}]}`
}

// endpoint returns a manifest with one event and the members of its sink, and one endpoint.
func endpoint(members string) string {
	return `{"endpoints":{"crm":"https://crm.example/hook"},"events":[{"eventType":"a.b","filter":{"projectScoped":true},` + members + `}]}`
}

// beyond reports whether a reason for which a manifest is refused is beyond a schema.
func beyond(reason string) bool {
	for _, part := range []string{"duplicate", "bytes", "is of another event", "filter: ", "policy.", "is an event of the server", "set output to", "65 publish", "are of the mode", "is of the mode", "a worker gets", "is not in endpoints", "endpoint.url"} {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}
