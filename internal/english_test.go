package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bars are the most words per 1,000 of a text that replace a noun by a relative clause or a
// pronoun. "whoever" is never allowed; "whose" is good English where a noun stands before it, and
// has a bar of its own.
type bars struct{ who, whose, what, nobody float64 }

// plain lists the texts that are finished: for each, the bars that hold. Directories stand for the
// comments of their Go files without tests and for their Markdown files, files for their whole text.
func plain() map[string]bars {
	strict := bars{who: 0.5, whose: 2, what: 2, nobody: 0.3}
	return map[string]bars{
		"internal/httpapi":              strict,
		"internal/httpapi/httpkit":      strict,
		"internal/httpapi/live":         strict,
		"internal/cloudevent":           strict,
		"internal/httpapi/dstreams":     strict,
		"internal/strictjson":           strict,
		"internal/authz":                strict,
		"internal/subscription":         strict,
		"internal/app":                  strict,
		"internal/datadir":              strict,
		"internal/httpserver":           strict,
		"internal/status":               strict,
		"internal/supervise":            strict,
		"internal/tracing":              strict,
		"internal/otlp":                 strict,
		"internal/seal/keyfile":         strict,
		"pkg/client":                    strict,
		"pkg/webhook":                   strict,
		"pkg/sluice":                    strict,
		"streams":                       strict,
		"config":                        strict,
		"config/example.yaml":           strict,
		"internal/delivery":             strict,
		"internal/wake":                 strict,
		"internal/streamsub":            strict,
		"internal/feed":                 strict,
		"internal/watch":                strict,
		"internal/durable":              strict,
		"internal/schedule":             strict,
		"internal/schedule/timerqueue":  strict,
		"internal/schedule/delayed":     strict,
		"internal/schedule/action":      strict,
		"internal/schedule/appointment": strict,
		"internal/filter":               strict,
		"internal/sysevent":             strict,
		"internal/loopguard":            strict,
		"internal/quota":                strict,
		"internal/integrity":            strict,
		"internal/catalogue":            strict,
		"internal/grants":               strict,
		"internal/endpoint":             strict,
		"internal/export":               strict,
		"internal/natsd":                strict,
		"internal/backup":               strict,
		"internal/bundle":               strict,
		"internal/callbacktoken":        strict,
		"internal/capacity":             strict,
		"internal/certreload":           strict,
		"internal/explain":              strict,
		"internal/fairsem":              strict,
		"internal/inflight":             strict,
		"internal/ingest":               strict,
		"internal/jsonarray":            strict,
		"internal/keylock":              strict,
		"internal/ledger":               strict,
		"internal/logtail":              strict,
		"internal/metrics":              strict,
		"internal/outbox":               strict,
		"internal/retry":                strict,
		"internal/seal":                 strict,
		"internal/shutdown":             strict,
		"internal/websocket":            strict,
		"internal/model":                strict,
		"internal/logtail/ringbuffer":   strict,
		"internal/demo":                 strict,
		"internal/doctor":               strict,
		"internal/terminal":             strict,
		"cmd/sluice":                    strict,
		"internal/testkit/sockettest":   strict,
		"internal/testkit/natstest":     strict,
		"internal/testkit/hooktest":     strict,
		"internal/testkit/wakesuite":    strict,
		"internal/testkit/waketest":     strict,
		"internal/testkit/faulttest":    strict,
		"internal/testkit/storetest":    strict,
		"scripts/mutants":               strict,
		"cmd/bench":                     strict,
		"internal/notify":               strict,
		"internal/keyring":              strict,
		"internal/durable/tails":        strict,
		"internal/namespace":            strict,
		"internal/ownership":            strict,
		"internal/endpoint/limit":       strict,
		"internal/httpapi/openapi.yaml": strict,
		"README.md":                     strict,
		"CHANGELOG.md":                  strict,
		"docs":                          strict,
		"docs/concepts":                 strict,
		"docs/how-to":                   strict,
		"docs/decisions":                strict,

		"internal/natsstore":               strict,
		"internal/command/accesscmd":       strict,
		"internal/command/cmdkit":          strict,
		"internal/command/knowledgecmd":    strict,
		"internal/command/mirrorcmd":       strict,
		"internal/command/modulecmd":       strict,
		"internal/command/namespacecmd":    strict,
		"internal/command/schedulecmd":     strict,
		"internal/command/subscriptioncmd": strict,
		"internal/natsstore/deliverystore": strict,
		"internal/natsstore/eventlog":      strict,
		"internal/natsstore/streamstore":   strict,
		"internal/natsstore/records":       strict,
	}
}

// textOf returns the text of a directory's Markdown files and of the comments of its Go files, tests left out.
func textOf(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	require.NoError(t, err)
	for _, name := range pages {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text.Write(data)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, group := range file.Comments {
			text.WriteString(group.Text() + "\n")
		}
	}
	return text.String()
}

func TestEnglish_KeepsTheBars(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`[A-Za-z']+`)
	for name, bar := range plain() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", filepath.FromSlash(name))
			info, err := os.Stat(path)
			require.NoError(t, err)
			var text string
			if info.IsDir() {
				text = textOf(t, path)
			} else {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				text = string(data)
			}
			words, count := 0, map[string]int{}
			for _, w := range word.FindAllString(strings.ToLower(text), -1) {
				words++
				count[w]++
			}
			per := func(list ...string) float64 {
				sum := 0
				for _, w := range list {
					sum += count[w]
				}
				return 1000 * float64(sum) / float64(words)
			}
			require.Zero(t, count["whoever"], "whoever")
			require.LessOrEqual(t, per("who", "whom"), bar.who, "who, whom per 1,000 of %d words", words)
			require.LessOrEqual(t, per("whose"), bar.whose, "whose per 1,000 of %d words", words)
			require.LessOrEqual(t, per("what", "whatever"), bar.what, "what, whatever per 1,000 of %d words", words)
			require.LessOrEqual(t, per("nobody", "somebody", "everybody"), bar.nobody, "nobody, somebody, everybody per 1,000 of %d words", words)
		})
	}
}

var whoever = regexp.MustCompile(`(?i)\bwhoever\b`)

// Error messages, log lines and help texts of the program contain no "whoever".
func TestEnglish_MessagesHaveNoRiddles(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"../pkg", "../cmd", "../config", "../streams", "."} {
		require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					require.NotRegexp(t, whoever, text.Value, name)
				}
				return true
			})
			return nil
		}))
	}
}
