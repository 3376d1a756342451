package httpapi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// interfaceEnv names the file that TestOpenAPI_KeepsRoutesAndFields writes, with the present routes and fields (make fixture).
const interfaceEnv = "SLUICE_INTERFACE"

// published returns the routes and the fields of the schemas of the API, a line each.
func published(t *testing.T) (lines []string) {
	t.Helper()
	doc := document(t)
	for path, item := range dig(t, doc, "paths").(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				lines = append(lines, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for name, schema := range dig(t, doc, "components", "schemas").(map[string]any) {
		fields, _ := schema.(map[string]any)["properties"].(map[string]any) // others have none
		for field := range fields {
			lines = append(lines, name+"."+field)
		}
	}
	slices.Sort(lines)
	return lines
}

// Issue 18, item 1: routes and fields that an earlier build had are still there.
func TestOpenAPI_KeepsRoutesAndFields(t *testing.T) {
	t.Parallel()
	present := published(t)
	if file := os.Getenv(interfaceEnv); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(present, "\n")+"\n"), 0o600))
	}
	files, err := filepath.Glob("testdata/interface-*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			require.True(t, slices.Contains(present, strings.TrimSpace(line)), "%s: %s is gone", file, line)
		}
	}
}
