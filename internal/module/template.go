package module

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// TestsFile is the path of a module's table of tests.
const TestsFile = "events/tests.json"

// Test is one row of a module's table of tests: an event, and the expected result of its handler.
type Test struct {
	Name    string         `json:"name"`
	Handler string         `json:"handler,omitempty"` // id; default: that of the only handler
	Event   sluice.Event   `json:"event"`             // a CloudEvent
	Outcome sluice.Outcome `json:"outcome"`
	Output  string         `json:"output,omitempty"` // expected part of its output
	// Publishes are the events that it publishes, in order. Absent: any; empty: none.
	Publishes []TestEvent `json:"publishes,omitempty"`
}

// TestEvent is an event that a test expects.
type TestEvent struct {
	Path sluice.Path     `json:"path"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data,omitempty"` // absent: any
}

// Differs describes how published events differ from those that the test expects; "" if they do not
// differ. It compares the events in order. The data may differ in JSON white space.
func (t *Test) Differs(events []sluice.Event) string {
	if t.Publishes == nil {
		return ""
	}
	if len(events) != len(t.Publishes) {
		return fmt.Sprintf("it publishes %d events, not %d", len(events), len(t.Publishes))
	}
	for i, want := range t.Publishes {
		is := &events[i]
		expected := sluice.Event{Type: want.Type, Data: want.Data}
		switch {
		case is.Path != want.Path || is.Type != want.Type:
			return fmt.Sprintf("it publishes %s on %s, not %s on %s", is.Type, is.Path, want.Type, want.Path)
		case want.Data != nil && !is.Repeats(&expected):
			return fmt.Sprintf("the data of %s on %s is %s, not %s", is.Type, is.Path, is.Data, want.Data)
		}
	}
	return ""
}

// New creates a directory with a working module for events of a type. A handler in Go must be built
// before it works (see Build). The directory must not exist; its parents are made. Code
// InvalidRequest for a name, a language or a type that is not possible. After an error some files
// may be there.
func New(dir, language, eventType string, mode Mode) (err error) {
	if err := CheckName(filepath.Base(dir)); err != nil {
		return err
	}
	of, ok := templates()[[2]string{language, string(mode)}]
	if !ok {
		return sluice.Errorf(sluice.InvalidRequest, "no template in language %q of mode %q: use sh, python, node or go, and for a worker one of the last three", language, mode)
	}
	system, path := sluice.IsSystemType(eventType), "/example/1"
	if system {
		path = systemPaths + path
	} else if err := checkType(eventType); err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "%v", err)
	}
	if err := cmp.Or(os.MkdirAll(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o755)); err != nil { //nolint:gosec // the server may be another user
		return fmt.Errorf("new module: %w", err)
	}
	event := map[string]any{"eventType": eventType, "handler": of.handler, "filter": map[string]any{"projectScoped": !system}}
	if mode != Exec {
		event["mode"] = mode
	}
	manifest, err := indented(map[string]any{"events": []any{event}})
	if err != nil {
		return err
	}
	one := eventType
	if prefix, ok := strings.CutSuffix(eventType, ".*"); ok {
		one = prefix + ".example"
	}
	tests, err := indented([]any{map[string]any{
		"name": "an event is handled", "outcome": "delivered", "output": "handled " + one,
		"event": map[string]any{"specversion": "1.0", "id": "1", "source": "/test", "type": one, "path": path, "data": map[string]any{}},
	}})
	if err != nil {
		return err
	}
	readme := "# " + filepath.Base(dir) + "\n\nThe program `" + of.handler + "` handles `" + eventType + "`.\n"
	if language == "go" {
		readme += "Build it: `" + Build + "`\n"
	}
	files := map[string]string{ManifestFile: manifest, TestsFile: tests, of.file: of.text, "README.md": readme}
	maps.Copy(files, of.more)
	return write(dir, files)
}

// write writes texts into files of a directory. Scripts can be executed.
func write(dir string, files map[string]string) error {
	for path, text := range files {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the server may be another user
			return fmt.Errorf("new module: %w", err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return fmt.Errorf("new module: %w", err)
		}
	}
	return nil
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", fmt.Errorf("new module: %w", err)
	}
	return string(text) + "\n", nil
}

// Tests returns the module's table of tests, empty if it has no TestsFile. The error is a *Fault.
// It reads the file in m.Dir at the time of the call.
func (m *Module) Tests() ([]Test, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, filepath.FromSlash(TestsFile)))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &Fault{File: TestsFile, Reason: plain(err)}
	}
	var tests []Test
	if err := json.Unmarshal(text, &tests); err != nil {
		return nil, &Fault{File: TestsFile, Line: lineOfError(text, err), Reason: err.Error()}
	}
	for i := range tests {
		test := &tests[i]
		if test.Handler == "" && len(m.Manifest.Handlers) == 1 {
			test.Handler = m.Manifest.Handlers[0].ID
		}
		if !slices.ContainsFunc(m.Manifest.Handlers, func(h Handler) bool { return h.ID == test.Handler }) {
			return nil, &Fault{File: TestsFile, Reason: fmt.Sprintf("test %q: the module has no handler %q", test.Name, test.Handler)}
		}
		if test.Event.ID == "" || test.Event.Path == "" {
			return nil, &Fault{File: TestsFile, Reason: fmt.Sprintf("test %q: the event has no id or no path", test.Name)}
		}
	}
	return tests, nil
}
