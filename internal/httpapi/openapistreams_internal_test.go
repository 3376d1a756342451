package httpapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// S2-130: feeds stream, and so do Durable Streams, which have a document of their own; every other operation answers and ends.
func TestOpenAPI_OnlyFeedsStream(t *testing.T) {
	t.Parallel()
	paths, ok := dig(t, document(t), "paths").(map[string]any)
	require.True(t, ok)
	var streaming []string
	for path, item := range paths {
		text, err := yaml.Marshal(item)
		require.NoError(t, err)
		if strings.Contains(string(text), "event-stream") || strings.Contains(string(text), `"101"`) {
			streaming = append(streaming, path)
		}
	}
	require.ElementsMatch(t, []string{"/v1/namespaces/{ns}/feed", "/v1/namespaces/{ns}/items/feed", "/v1/namespaces/{ns}/items/stream"}, streaming)
}
