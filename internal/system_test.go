package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-122: docs/events.md names every type of event that the server itself publishes, and no other; and each is known to
// every catalogue, so that filters may name it.
func TestSystemEvents_TypesAreKnownAndDocumented(t *testing.T) {
	t.Parallel()
	declared := slices.DeleteFunc(declaredTypes(t), func(name string) bool { return name == sluice.TypeNotice }) // which is no event
	require.Contains(t, declared, sluice.TypeSubscriptionCreated)
	require.ElementsMatch(t, declared, sluice.SystemTypes())
	require.ElementsMatch(t, declared, documentedTypes(t))
}

// declaredTypes returns the values of the constants of pkg/sluice that are called Type….
func declaredTypes(t *testing.T) (types []string) {
	t.Helper()
	files, err := filepath.Glob("../pkg/sluice/*.go")
	require.NoError(t, err)
	constant := regexp.MustCompile(`^Type[A-Z]`)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !constant.MatchString(spec.Names[0].Name) {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				types = append(types, text)
			}
			return false
		})
	}
	return types
}

// documentedTypes returns the types in the table of system events, where `.updated` after `thing.created` is thing.updated.
func documentedTypes(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/events.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## System events\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	types := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`/_sys/") {
			continue
		}
		stem := ""
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			name := found[1]
			if strings.HasPrefix(name, ".") {
				name = stem + name
			} else {
				stem, _, _ = strings.Cut(name, ".")
			}
			types[name] = true
		}
	}
	return slices.Collect(maps.Keys(types))
}
